"""The trace page in a browser: clicks, keys, search, differences, links, no errors, and how fast it answers."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import mlirtri as mt

selenium = pytest.importorskip("selenium", reason="needs selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="needs chromium and chromedriver")


@mt.jit
def softmax(a):
    e = np.exp(a - a.max(axis=1)[:, None])
    return e / e.sum(axis=1)[:, None]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    kernels = [softmax.compile(np.ones((8, 16), np.float32), pipeline=name) for name in ("linalg", "relax", "mlir")]
    return kernels[0].trace(tmp_path_factory.mktemp("page") / "t.html", *kernels[1:])


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1600,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, path):
    browser.get("about:blank")
    browser.get(path.as_uri())
    settle(browser)
    yield browser
    problems = [each["message"] for each in browser.get_log("browser") if each["level"] in ("SEVERE", "WARNING")]
    assert problems == []


def texts(browser, selector: str) -> list[str]:
    return [each.text for each in browser.find_elements(By.CSS_SELECTOR, selector)]


def settle(browser) -> None:
    """Wait until everything that was asked for is shown."""
    browser.execute_async_script("settled().then(arguments[0])")


def click(browser, selector: str, text: str = "") -> None:
    next(each for each in browser.find_elements(By.CSS_SELECTOR, selector) if each.text.startswith(text)).click()
    settle(browser)


def press(browser, *keys: str) -> None:
    for key in keys:
        browser.find_element(By.TAG_NAME, "body").send_keys(key)
    settle(browser)


def address_ends(browser, end: str) -> bool:
    return WebDriverWait(browser, 5).until(lambda browser: browser.current_url.endswith(end))


def title(browser, pane: str = "first") -> str:
    return browser.find_element(By.CSS_SELECTOR, f"#{pane} h2").text


def test_a_click_marks_related_lines_of_every_stage(opened):
    lines = softmax.__mlirtri_function__.__code__.co_firstlineno
    rows = opened.find_elements(By.CSS_SELECTOR, "#source .row")
    row = next(each for each in rows if "np.exp" in each.text)
    number = int(row.find_element(By.TAG_NAME, "b").text)
    assert number == lines + 2
    row.click()
    settle(opened)
    assert len(texts(opened, "#source .row.lit")) == 1
    assert any("tri.exp" in text for text in texts(opened, "#first .row.lit"))
    assert not any("tri.divide" in text for text in texts(opened, "#first .row.lit"))
    for stage in ("linalg", "fused", "tir", "scheduled"):
        click(opened, "#list .stage", stage)
        assert texts(opened, "#first .row.lit"), stage
    assert address_ends(opened, f"#linalg/scheduled?lines={number}")
    click(opened, "#source .row.lit")
    assert texts(opened, ".row.lit") == []


def test_keys_move_through_stages_pipelines_and_views(opened):
    assert title(opened) == "linalg: tri"
    press(opened, "j")
    assert title(opened) == "linalg: linalg"
    press(opened, Keys.ARROW_DOWN, "k", "k")
    assert title(opened) == "linalg: tri"
    press(opened, "l", "l")
    assert title(opened) == "mlir: tri"
    press(opened, Keys.ARROW_LEFT)
    assert title(opened) == "relax: tri"
    assert address_ends(opened, "#relax/tri")
    press(opened, "s")
    assert title(opened, "second") == "mlir: tri"
    press(opened, "s", "2")
    assert "both go along the same rows" in opened.find_element(By.CSS_SELECTOR, "main[data-view=fusion]").text
    press(opened, "3")
    assert opened.find_element(By.CSS_SELECTOR, "main[data-view=costs] .times").is_displayed()
    press(opened, "t")
    assert opened.find_element(By.TAG_NAME, "html").get_attribute("data-theme") in ("light", "dark")


def test_differences_show_what_a_pass_changed(opened, path):
    opened.get(f"{path.as_uri()}#linalg/fused/linalg-fuse-elementwise-ops?show=unified")
    settle(opened)
    # Only the address after # differs, and the browser tells the page of that in its own time.
    assert WebDriverWait(opened, 10).until(lambda browser: "since" in title(browser))
    removed, added = texts(opened, "#first .row.del"), texts(opened, "#first .row.add")
    assert any("linalg.generic" in line for line in removed)
    assert any("math.exp" in line for line in added) or any("arith.subf" in line for line in added)
    press(opened, "d")
    assert opened.find_element(By.ID, "second").is_displayed()
    assert texts(opened, "#first .row.del")
    assert texts(opened, "#second .row.add")
    press(opened, "u")
    assert "guard-producers" in opened.find_element(By.ID, "list").text


def test_search_finds_lines_and_goes_to_the_next_text(opened):
    press(opened, "/")
    field = opened.find_element(By.ID, "search")
    assert opened.switch_to.active_element == field
    field.send_keys("arith.maximumf")
    settle(opened)
    assert opened.find_element(By.ID, "hits").text.startswith("0 here, ")
    field.send_keys(Keys.ENTER)
    settle(opened)
    assert title(opened) != "linalg: tri"
    assert any("arith.maximumf" in line for line in texts(opened, "#first .row.hit"))


OPENED = """
    const go = arguments[0];
    settled().then(() => { document.body.offsetHeight; go(performance.now()); });
"""
"""Milliseconds from the start of loading until the first text is there."""
ANSWERED = """
    const [code, go] = arguments, hits = document.getElementById("hits");
    hits.textContent = "";
    (0, eval)(code);
    const done = () => { document.body.offsetHeight; go(); };
    const look = () => hits.textContent ? done() : setTimeout(look);
    code.startsWith("search(") ? look() : settled().then(done);
"""
"""Ends when an action has answered; a search has when it shows what is found in the text that is shown."""
ACTIONS = {
    "next text": "step(1)", "text before": "step(-1)", "diff": "setMode('unified')", "side by side": "setMode('sides')",
    "text": "setMode('text')", "search": "search('add')", "search on": "search('op7')",
    "no search": "track(search(''))",
    "fusion": "setView('fusion')", "costs": "setView('costs')", "IR": "setView('ir')", "theme": "theme()",
    "pipeline": "KEYS.l()", "split": "split()", "no split": "split()", "passes": "KEYS.u()",
    "line": "mark(data.origins[data.origins.length - 1])", "no line": "mark([])",
    "scroll": "panes.first.scroll.scrollTop = 9000; panes.first.draw()",
}  # fmt: skip


def seconds_of_actions(browser, path) -> dict[str, float]:
    """Return how long opening takes by the clock, and each action in CPU time of the page's thread: least of 3."""
    browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    opened, answered = [], {name: [] for name in ACTIONS}
    for _ in range(3):
        browser.get("about:blank")
        browser.get(path.as_uri())
        opened.append(browser.execute_async_script(OPENED) / 1e3)
        for name, code in ACTIONS.items():
            before = busy_seconds(browser)
            browser.execute_async_script(ANSWERED, code)
            answered[name].append(busy_seconds(browser) - before)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#first .row")) < 200
    return {name: min(times) for name, times in {"open": opened, **answered}.items()}


def busy_seconds(browser) -> float:
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(each["value"] for each in metrics if each["name"] == "TaskDuration")


def test_a_large_page_opens_and_answers_quickly(browser, tmp_path):
    from mlirtri.trace.data import Trace, TracedKernel, TracedText
    from mlirtri.trace.page import write_page

    lines = [f'  %{n} = "foo.op{n % 997}"(%{n - 1}) {{n = {n}}} : (f32) -> f32' for n in range(1, 15_001)]
    texts_ = [
        TracedText("fused", f"pass{step}", "mlir", "\n".join(lines[step * 1000 :] + ["  foo.add"] * step * 300))
        for step in range(8)
    ]
    kernels = [
        TracedKernel(f"big{n}", name, "big()", "cpu", (*texts_, TracedText("fused", None, "mlir", "\n".join(lines))))
        for n, name in enumerate(("linalg", "mlir"))
    ]
    write_page(Trace("big", tuple(kernels)), tmp_path / "big.html")
    seconds = seconds_of_actions(browser, tmp_path / "big.html")
    assert seconds.pop("open") < 2, seconds
    assert max(seconds.values()) < 0.1, seconds


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_page_of_a_network_opens_in_two_seconds_and_answers_in_a_tenth(browser, tmp_path, monkeypatch):
    import torch

    from mlirtri.cli.main import run_command

    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "examples" / "models")
    from resnet import ResNet18

    model = ResNet18(16).eval()
    torch.export.save(torch.export.export(model, (torch.randn(1, 3, 32, 32),)), tmp_path / "resnet.pt2")
    page = tmp_path / "resnet.html"
    assert run_command(["trace", str(tmp_path / "resnet.pt2"), "--html", str(page)]) == 0
    assert page.stat().st_size < 8_000_000
    seconds = seconds_of_actions(browser, page)
    assert seconds.pop("open") < 2, seconds
    assert max(seconds.values()) < 0.1, seconds


def test_a_watched_page_is_loaded_again_at_the_same_place(browser, tmp_path):
    from mlirtri.trace.data import Trace
    from mlirtri.trace.page import stamp_file, write_page

    kernel, path = softmax.compile(np.ones((8, 16), np.float32), pipeline="linalg").traced(), tmp_path / "w.html"
    write_page(Trace("first", (kernel,)), path, stamp="1")
    browser.get("about:blank")
    browser.get(path.as_uri())
    settle(browser)
    click(browser, "#list .stage", "scheduled")
    press(browser, "t")
    assert address_ends(browser, "#linalg/scheduled")
    theme = browser.execute_script("return document.documentElement.dataset.theme")
    scrolled = browser.execute_script("const each = panes.first.scroll; each.scrollTop = 100; return each.scrollTop")
    write_page(Trace("second", (kernel,)), path, stamp="2")
    WebDriverWait(browser, 10).until(lambda browser: browser.title == "second")
    settle(browser)
    assert title(browser) == "linalg: scheduled"
    assert browser.current_url.endswith("#linalg/scheduled")
    assert scrolled > 0
    assert browser.execute_script("return panes.first.scroll.scrollTop") == scrolled
    assert browser.execute_script("return document.documentElement.dataset.theme") == theme
    stamp_file(path).unlink()
    browser.get_log("browser")
