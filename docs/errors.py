#!/usr/bin/env python3
"""Writes docs/errors.md: every error that the programs and crates define, from the source.

    docs/errors.py            writes the page
    docs/errors.py --check    fails if the page differs from what would be written

An error is a variant with `#[error("...")]`. Its text says what is wrong, and behind the first semicolon what to do; its comment says
why it happens. `{...}` stands for values.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"

# Crates in the order of the page: who sees their errors, and the remedy for those whose text has none.
CRATES = {
    "cli": ("the commands", "correct what the text names, and try again"),
    "config": ("the configuration", "correct the file at this place"),
    "monitor": ("the start, and packages", "correct what the text names, and start again"),
    "verify": ("the check of an installation", "install Rosemary again"),
    "package": ("packages", "build, sign and copy the package again"),
    "keys": ("keys and certificates", "make the keys again with `rosemary pki`"),
    "northbound": ("the HTTP interface", "`rosemary logs` has the details; the process starts again by itself"),
    "routes": ("routes of apps", "correct the app that answers so"),
    "ofctl": ("Ryu's REST interface", "correct the request"),
    "kernel": ("switches: reasons of disconnections, in the log", "correct or update the switch, or what connected in its place"),
    "dal": ("switches: mistakes in their messages, in the log", "update the switch, or report the mistake to its vendor"),
    "ovsdb": ("the database of a switch", "correct or update the server of the switch's database"),
    "openflow": ("messages of OpenFlow that cannot be decoded or encoded", "correct the program or switch that made the message"),
    "zone": ("the end of an app's zone", "correct the app; its log has the details"),
    "wasm": ("the end of the zone of an app in WebAssembly, and the compiler", "correct the app; its log has the details"),
    "security": ("the program that inspects packages", "build and sign the package again"),
    "services": ("the log and the storage", "look at the disk and the permissions of the state directory"),
    "view": ("queries of a running Rosemary", "ask again; `rosemary status` shows what runs"),
    "sdk": ("calls of apps", "correct the call; the documentation of the function says what it accepts"),
    "sys": ("the operating system", "`rosemary doctor` shows what this machine lacks"),
    "ofbench": ("`ofbench`", "look at the controller or switch that is measured"),
}

HEAD = """# Errors

Every error of the programs and libraries, made from their source by `docs/errors.py`. `{...}` stands for values. Most errors also print
their remedy.
"""

STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)


def unescaped(text):
    """The content of a literal of Rust, in one line."""
    text = re.sub(r"\\\n\s*", "", text)
    text = text.replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")
    return " ".join(text.split())


def attribute(text, at):
    """The attribute that begins at a place, and where it ends."""
    depth, is_text = 0, False
    for end in range(at, len(text)):
        it = text[end]
        if it == '"' and text[end - 1] != "\\":
            is_text = not is_text
        elif not is_text and it in "[(":
            depth += 1
        elif not is_text and it in "])":
            depth -= 1
            if depth == 0:
                return text[at:end + 1], end + 1
    raise SystemExit(f"an attribute does not end: {text[at:at + 60]}")


def comment_before(text, at):
    """The comment above a place, with other attributes in between."""
    lines = text[:at].split("\n")[:-1]
    found = []
    while lines:
        line = lines.pop().strip()
        if line.startswith("///"):
            found.insert(0, line[3:].strip())
        elif not line.startswith("#["):
            break
    return " ".join(found)


def errors(path):
    """The errors of a file: texts and comments."""
    text = path.read_text()
    tests = text.find("#[cfg(test)]\nmod tests {")
    text = text[:tests] if tests >= 0 else text
    found, at = [], 0
    while (at := text.find("#[error(", at)) >= 0:
        begin = at
        whole, at = attribute(text, at)
        literal = STRING.search(whole)
        if literal is None:
            continue  # transparent: the error of another enum
        about = comment_before(text, begin)
        if not about:
            declared = text.rfind(" enum ", 0, begin)
            about = comment_before(text, text.rfind("\n", 0, declared) + 1)
        template = unescaped(literal.group(1))
        if plain(template) != "{...}":  # otherwise the text of another error
            found.append((template, about))
    return found


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def plain(template):
    """A template with `{...}` in the place of values."""
    return re.sub(r"\{[^{}]*\}", "{...}", template)


def page():
    parts = [HEAD]
    for crate, (about, usual) in CRATES.items():
        rows = []
        for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
            if path.name != "tests.rs" and "tests" not in path.parts:
                rows += errors(path)
        if not rows:
            continue
        parts.append(f"\n## `{crate}`: {about}\n\n| error | cause | remedy |\n| --- | --- | --- |\n")
        for template, comment in rows:
            what, _, remedy = plain(template).partition("; ")
            parts.append(f"| {cell(what)} | {cell(comment)} | {cell(remedy or usual)} |\n")
    return "".join(parts)


def main():
    made = page()
    known = {it.parent.parent.name for it in (ROOT / "crates").glob("*/src/lib.rs")}
    missing = [it for it in known - CRATES.keys() if "#[error(" in "".join(p.read_text() for p in (ROOT / "crates" / it).rglob("*.rs"))]
    if missing:
        sys.exit(f"docs/errors.py: CRATES lacks {', '.join(sorted(missing))}")
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != made:
            sys.exit("docs: docs/errors.md differs from the source; type: docs/errors.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(made)


if __name__ == "__main__":
    main()
