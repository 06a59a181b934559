"""What `mkdocs build` does besides: links out of ``docs/`` become text, and the gallery's traces are made."""

import re
import runpy
from pathlib import Path

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+[^)]+\)")
GALLERY = Path(__file__).parent / "gallery"


def on_page_markdown(markdown: str, page, **_) -> str:
    """Return the page's text; a link out of ``docs/`` keeps its text alone."""
    depth = page.file.src_uri.count("/") + 1

    def text_alone(match: re.Match) -> str:
        return match[1] if match[0].count("../") >= depth else match[0]

    return OUTSIDE.sub(text_alone, markdown)


def on_post_build(config, **_) -> None:
    """Write the traces beside the gallery's page."""
    for source in sorted(GALLERY.glob("*.py")):
        write_trace(source, Path(config["site_dir"]) / "gallery" / f"{source.stem}.html")


def write_trace(source: Path, page: Path) -> None:
    """Write the trace of a file's program, or of its kernel, by all pipelines; raises `RuntimeError` if one refuses."""
    from mlirtri.lowering.pipelines import COMPARED_PIPELINES
    from mlirtri.measure.tracing import trace_of
    from mlirtri.trace.page import write_page

    what = runpy.run_path(str(source)).get("program", str(source))
    trace = trace_of(what, {}, COMPARED_PIPELINES, None, None)
    if refused := [f"{kernel.pipeline}: {kernel.failure}" for kernel in trace.kernels if kernel.failure]:
        raise RuntimeError(f"{source}: {'; '.join(refused)}")
    write_page(trace, page)
