"""Fits docs/ and README.md to mkdocs, which makes the documentation site of them; named in mkdocs.yml under `hooks`.

Documents are plain Markdown with links that work in the repository. On the site
- pages come in the order in which docs/README.md mentions them, then the others of their folder by name;
- README.md is a page of its own, overview.md;
- a link to a folder of docs/ leads to its README.md, or is text where there is none;
- a link to a file outside of docs/ leads to `repo_url`, or is the path as text while mkdocs.yml has no `repo_url`.
"""

import logging
import pathlib
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDERS = {"start": "Start", "guide": "Guide", "reference": "Reference", "internals": "Internals", "results": "Results"}
OVERVIEW = "overview.md"  # README.md on the site
WORKER = "assets/iframe-worker.js"
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
log = logging.getLogger("mkdocs.hooks.docs_site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the overview and a script, and sets the order of pages."""
    files.append(File.generated(config, WORKER, content=(HERE / "iframe-worker.js").read_text(encoding="utf-8")))
    files.append(File.generated(config, OVERVIEW, content=(ROOT / "README.md").read_text(encoding="utf-8")))
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    mentioned = [match["target"] for match in LINK.finditer(index)]
    pages = [file.src_uri for file in files.documentation_pages()]
    pages.sort(key=lambda uri: (mentioned.index(uri) if uri in mentioned else len(mentioned), uri))
    config.nav = [
        "README.md",
        OVERVIEW,
        *(uri for uri in pages if "/" not in uri and uri not in ("README.md", OVERVIEW)),
    ]
    for folder, title in FOLDERS.items():
        if inside := [uri for uri in pages if uri.startswith(folder + "/")]:
            config.nav.append({title: inside})
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites the links of a page, outside of its code."""
    in_repository = "README.md" if page.file.src_uri == OVERVIEW else "docs/" + page.file.src_uri

    def rewritten(match: re.Match[str]) -> str:
        if "://" in match["target"]:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), match["target"]))
        if not (ROOT / path).exists():
            log.warning("%s: the link to %s leads nowhere", in_repository, match["target"])
        anchor = match["anchor"] or ""
        inside = OVERVIEW if path == "README.md" else path.removeprefix("docs/") if path.startswith("docs/") else ""
        for uri in (inside, inside + "/README.md"):
            if inside and files.get_file_from_path(uri):
                link = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
                return f"{match['image']}[{match['text']}]({link}{anchor})"
        if inside:
            return match["text"]  # a folder without a page of its own
        if config.repo_url:
            return f"[{match['text']}]({config.repo_url.rstrip('/')}/blob/main/{path}{anchor})"
        return f"`{path}`" if match["text"] in path else f"{match['text']} (`{path}`)"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else LINK.sub(rewritten, part) for part in parts)
