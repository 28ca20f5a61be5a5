"""What can be wrong with the text of a document: links, paths, long lines, and a map that differs from the tree.

Running the blocks of a page is left to `doc_pages`.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
DECISIONS = tuple(sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")))
CHANGELOG = ROOT / "CHANGELOG.md"
"""The one document that names files and modules which are gone."""

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
DOCUMENTS = [
    str(page.relative_to(ROOT))
    for page in (*PAGES, CONTRIBUTING, CHANGELOG, ROOT / "docs" / "decisions" / "README.md", *DECISIONS)
]
"""Everything that people read: the pages, and documents whose blocks are not run."""

LINE_CHARS = 120
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

PACKAGE_FOLDERS = ("proto", "writers", "supervisor")
MAP_HEADING = "## The map\n"
OWNERS_HEADING = "## Who owns which key\n"

_LINK = re.compile(r"\]\(([^)#:\s]+)?(?:#([^)\s]*))?\)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")
_FILE = r"\w[\w.-]*\.(?:py|lua|proto|md|toml|acl|lock|service)"
_PATH = re.compile(rf"\.?\w[\w.-]*(?:/[\w.-]+)*/|\.?\w[\w.-]*(?:/[\w.-]+)+|{_FILE}")
_MAP_LINE = re.compile(r"( *)([\w/]+)/ +\S.*")


def dead_links(page: str) -> list[str]:
    """Links of a page to a file or a heading that does not exist; those to other hosts are not followed."""
    path = ROOT / page
    dead = []
    for match in _LINK.finditer(path.read_text()):
        target = path.parent / match[1] if match[1] else path
        if not target.exists() or (match[2] and match[2] not in anchors(target)):
            dead.append(match[0])
    return dead


def anchors(page: Path) -> set[str]:
    """Fragments by which the headings of a page can be linked to, as GitHub makes them."""
    headings = _HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def long_lines(page: str) -> list[str]:
    """Lines of prose that are too long; blocks, comments and tables may have any length."""
    prose = _COMMENT.sub("", FENCE.sub("", (ROOT / page).read_text()))
    return [line for line in prose.splitlines() if len(line) > LINE_CHARS and not line.startswith("|")]


def dead_paths(page: str) -> list[str]:
    """Files and folders that a page names in backticks and that do not exist.

    A path is given from the root of the project, from the folder of a package, or from inside a package; a file may
    also be given by its name alone.
    """
    text = FENCE.sub("", (ROOT / page).read_text())
    words = (word for code in _CODE.findall(text) for word in re.split(r"[\s=]+", code))
    return [word for word in words if _PATH.fullmatch(word) and not _exists(word)]


def _exists(path: str) -> bool:
    bases = (ROOT, *(ROOT / folder for folder in PACKAGE_FOLDERS), *_packages())
    if any((base / path).exists() for base in bases):
        return True
    return "/" not in path and any(True for _ in ROOT.glob(f"[!.]*/**/{path}"))


def _packages() -> list[Path]:
    """The packages at the top, each in the folder that it has to itself."""
    return [path.parent for folder in PACKAGE_FOLDERS for path in (ROOT / folder).glob("*/__init__.py")]


def packages_in_tree() -> list[str]:
    """Every package and sub-package, as a path from the root."""
    paths = (path.parent for package in _packages() for path in package.rglob("__init__.py"))
    return [str(path.relative_to(ROOT)) for path in paths]


def packages_in_map(page: str) -> list[str]:
    """The packages of the map, in its order: its block has a line for each, indented by two for each level."""
    text = (ROOT / page).read_text()
    block = FENCE.search(text, text.index(MAP_HEADING))
    assert block is not None
    packages: list[str] = []
    path: list[str] = []
    for line in block[2].splitlines():
        match = _MAP_LINE.fullmatch(line)
        assert match, f"{page}: not a package and what it holds: {line!r}"
        path = [*path[: len(match[1]) // 2], match[2]]
        packages.append("/".join(path))
    return packages


def key_names_in_table(page: str) -> list[str]:
    """The names in the first column of the tables that say who owns which key."""
    section = (ROOT / page).read_text().partition(OWNERS_HEADING)[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    return [name for cell in first_cells for name in _CODE.findall(cell)]
