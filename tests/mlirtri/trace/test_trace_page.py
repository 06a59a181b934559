"""The trace page in a browser: clicks, keys, search, differences, links, no errors, and how fast it answers."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import mlirtri as mt

selenium = pytest.importorskip("selenium", reason="needs selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

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
    yield browser
    problems = [each["message"] for each in browser.get_log("browser") if each["level"] in ("SEVERE", "WARNING")]
    assert problems == []


def texts(browser, selector: str) -> list[str]:
    return [each.text for each in browser.find_elements(By.CSS_SELECTOR, selector)]


def press(browser, *keys: str) -> None:
    for key in keys:
        browser.find_element(By.TAG_NAME, "body").send_keys(key)


def title(browser, pane: str = "first") -> str:
    return browser.find_element(By.CSS_SELECTOR, f"#{pane} h2").text


def test_a_click_marks_related_lines_of_every_stage(opened):
    lines = softmax.__mlirtri_function__.__code__.co_firstlineno
    rows = opened.find_elements(By.CSS_SELECTOR, "#source .row")
    row = next(each for each in rows if "np.exp" in each.text)
    number = int(row.find_element(By.TAG_NAME, "b").text)
    assert number == lines + 2
    row.click()
    assert len(texts(opened, "#source .row.lit")) == 1
    assert any("tri.exp" in text for text in texts(opened, "#first .row.lit"))
    assert not any("tri.divide" in text for text in texts(opened, "#first .row.lit"))
    for stage in ("linalg", "fused", "tir", "scheduled"):
        entries = opened.find_elements(By.CSS_SELECTOR, "#list .stage")
        next(each for each in entries if each.text.startswith(stage)).click()
        assert texts(opened, "#first .row.lit"), stage
    assert opened.current_url.endswith(f"#linalg/scheduled?lines={number}")
    opened.find_element(By.CSS_SELECTOR, "#source .row.lit").click()
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
    assert opened.current_url.endswith("#relax/tri")
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
    assert "since" in title(opened)
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
    assert opened.find_element(By.ID, "hits").text.startswith("0 here, ")
    field.send_keys(Keys.ENTER)
    assert title(opened) != "linalg: tri"
    assert any("arith.maximumf" in line for line in texts(opened, "#first .row.hit"))


def test_a_large_page_opens_and_answers_quickly(browser, tmp_path):
    from mlirtri.trace.data import Trace, TracedKernel, TracedText
    from mlirtri.trace.page import write_page

    body = "\n".join(f'  %{n} = "test.op{n % 997}"(%{n - 1}) {{n = {n}}} : (f32) -> f32' for n in range(1, 100_001))
    steps = [TracedText("fused", f"pass{n}", "mlir", body.replace(f'op{n}"', 'changed"')) for n in range(4)]
    kernel = TracedKernel("big", "linalg", "big()", "cpu", (*steps, TracedText("fused", None, "mlir", body)))
    write_page(Trace("big", (kernel,)), tmp_path / "big.html")
    browser.get((tmp_path / "big.html").as_uri())
    shown = browser.execute_script("return performance.getEntriesByType('navigation')[0].domComplete")
    assert shown < 8000
    measured = """
        const start = performance.now();
        dispatchEvent(new KeyboardEvent("keydown", {key: arguments[0], bubbles: true}));
        document.dispatchEvent(new KeyboardEvent("keydown", {key: arguments[0], bubbles: true}));
        document.body.offsetHeight;
        return performance.now() - start;
    """
    assert browser.execute_script(measured, "j") < 1000
    assert len(browser.find_elements(By.CSS_SELECTOR, "#first .row")) < 200
