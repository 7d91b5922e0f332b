"""Check the links of the rendered documentation: ``python docs/links.py build/site``.

Every link to a file of the site, and to a place in one of its pages, must lead somewhere. Links to
other sites are not followed.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)


def dead_links(site):
    """A line for each link that leads nowhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            anchor = unquote(parts.fragment)
            if not target.exists():
                yield f"{path.relative_to(site)}: {link}: no such file"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{path.relative_to(site)}: {link}: no such place in the page"


if __name__ == "__main__":
    faults = list(dead_links(Path(sys.argv[1]).resolve()))
    print("\n".join(faults) or "no dead links")
    sys.exit(bool(faults))
