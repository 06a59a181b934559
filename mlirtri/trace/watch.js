/* A page that is watched is loaded again when a newer one is written. Its stamp stands in a script beside it, since a
   page of file:// can read nothing else. The link keeps what is shown; the rest of the place goes through the session. */
const SECOND = 1000, PLACE = `place ${location.pathname}`;
function watched(stamp) {
  if (stamp === data.watched.stamp) return;
  const scrolled = Object.entries(panes).map(([name, pane]) => [name, pane.scroll.scrollTop, pane.scroll.scrollLeft]);
  const place = {scrolled, window: scrollY, folded: state.folded, theme: document.documentElement.dataset.theme, search: find("#search").value};
  sessionStorage.setItem(PLACE, JSON.stringify(place));
  writeLink();
  location.reload();
}
function look() {
  const script = document.createElement("script");
  script.src = `${data.watched.file}?${Date.now()}`;
  script.onload = () => { script.remove(); setTimeout(look, SECOND); };
  script.onerror = () => script.remove();  // nobody writes pages any more
  document.head.append(script);
}
async function returnToPlace() {
  const place = JSON.parse(sessionStorage.getItem(PLACE));
  sessionStorage.removeItem(PLACE);
  if (place === null) return;
  if (place.theme) document.documentElement.dataset.theme = place.theme;
  state.folded = place.folded;
  showList();
  await showText();
  if (place.search) {
    find("#search").value = place.search;
    await track(search(place.search));
  }
  for (const [name, top, left] of place.scrolled) panes[name].scroll.scrollTo(left, top);
  scrollTo(0, place.window);
}
track(returnToPlace());
setTimeout(look, SECOND);
