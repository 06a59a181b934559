"""What `mkdocs build` does to a page first: paths of the repository are no links on the site."""

import re

OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+[^)]+\)")


def on_page_markdown(markdown: str, page, **_) -> str:
    """Return the page's text; a link out of ``docs/`` keeps its text alone."""
    depth = page.file.src_uri.count("/") + 1

    def text_alone(match: re.Match) -> str:
        return match[1] if match[0].count("../") >= depth else match[0]

    return OUTSIDE.sub(text_alone, markdown)
