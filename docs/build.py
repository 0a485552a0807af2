#!/usr/bin/env python3
"""Collects the sources of the book in a directory: every page that SUMMARY.md lists, and every file that a page links to.

    docs/build.py DIRECTORY

A link to a file that does not exist is an error, and so is a page of docs/ that SUMMARY.md does not list.
"""

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
OUTSIDE = re.compile(r"[a-z]+:")


def links(page):
    """The local files that a page links to."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [link for link in LINK.findall(text) if not OUTSIDE.match(link)]


def for_book(page):
    """The text of a page, with the links as the book needs them: it has no directories, and a README.md is an index.html."""
    def link(found):
        name, target, rest = found.groups()
        if OUTSIDE.match(target):
            return found[0]
        if (page.parent / target).is_dir():
            return name
        return f"[{name}]({re.sub(r'README[.]md$', 'index.html', target)}{rest})"

    return re.sub(r"\[([^\]]*)\]\(([^)#\s]+)([^)]*)\)", link, page.read_text())


def copy(file, directory):
    to = directory / file.relative_to(ROOT)
    to.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_dir():
        shutil.copy(file, to)


def collect(directory):
    """Copies the book's sources; returns what is wrong with them."""
    summary = ROOT / "docs/SUMMARY.md"
    shutil.copy(summary, directory / "SUMMARY.md")
    pages = {ROOT / link for link in links(summary)}
    wrong = [
        f"docs/SUMMARY.md does not list {page.relative_to(ROOT)}"
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page not in pages | {summary}
    ]
    for page in sorted(pages):
        if not page.exists():
            wrong.append(f"docs/SUMMARY.md lists {page.relative_to(ROOT)}, which does not exist")
            continue
        to = directory / page.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(for_book(page))
        for link in links(page):
            file = (page.parent / link).resolve()
            if not file.exists() or ROOT not in [file, *file.parents]:
                wrong.append(f"{page.relative_to(ROOT)} links to {link}, which does not exist")
            elif file not in pages:
                copy(file, directory)
    return wrong


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    directory = Path(sys.argv[1])
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    wrong = collect(directory)
    for each in wrong:
        print(f"docs: {each}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


main()
