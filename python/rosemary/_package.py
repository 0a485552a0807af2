"""Makes the archive of an app: its modules, and the wheels that `requirements.txt` locks.

`rosemary app build` runs it: `python -m rosemary._package DIR FILE`. It unpacks wheels and runs no code of them: a source
distribution, and a wheel with native code, is refused. The same input gives the same archive.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

MAX_FILES = 20_000
MAX_BYTES = 200 << 20
# Directories beside the app's modules that are not part of it.
SKIPPED = {"__pycache__", "tests", "target", "node_modules", "build", "dist"}


class PackageError(Exception):
    """Why there is no archive, and what to do."""


def main(directory: str, target: str) -> int:
    """Writes the archive. Returns the exit code."""
    try:
        files = dict(wheels(Path(directory)))
        files.update(modules(Path(directory)))
        write(files, Path(target))
    except PackageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def modules(directory: Path):
    """The app's own modules, by their paths in the archive."""
    if not (directory / "app.py").is_file() and not (directory / "app" / "__init__.py").is_file():
        raise PackageError(f"neither app.py nor app/__init__.py is in {directory}")
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        parts = relative.parts
        if any(part in SKIPPED or part.startswith(".") for part in parts) or path.is_dir():
            continue
        if not stat.S_ISREG(path.lstat().st_mode):
            continue  # a link could lead out of the directory
        is_test = parts[-1].startswith("test_")
        is_module = path.suffix == ".py" or len(parts) > 1
        if is_module and not is_test:
            content = path.read_bytes()
            if path.suffix == ".py":
                check_syntax(path, content)
            yield str(PurePosixPath(*parts)), content


def check_syntax(path: Path, content: bytes) -> None:
    """Refuses a module that could not be imported. It does not run."""
    try:
        compile(content, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise PackageError(f"{path}:{error.lineno or 1}: {error.msg}") from None
    except ValueError as error:
        raise PackageError(f"{path}: {error}") from None


def wheels(directory: Path):
    """The files of the wheels that `requirements.txt` names with their digests."""
    requirements = directory / "requirements.txt"
    lines = requirements.read_text().splitlines() if requirements.is_file() else []
    if not any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        return
    with tempfile.TemporaryDirectory() as kept:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary=:all:", "--require-hashes"]
        done = subprocess.run([*command, "--requirement", str(requirements), "--dest", kept], check=False)
        if done.returncode != 0:
            raise PackageError("requirements.txt must name wheels that exist, each with its version and --hash=sha256:...")
        for wheel in sorted(Path(kept).iterdir()):
            yield from unpacked(wheel)


def unpacked(wheel: Path):
    """The files of a wheel. Nothing of it runs."""
    if wheel.suffix != ".whl":
        raise PackageError(f"{wheel.name} is no wheel; building it would run its code")
    if not wheel.stem.endswith("-none-any"):
        raise PackageError(f"{wheel.name} has native code, which a package cannot carry; install it with the operator and name it by python-path")
    total = 0
    with zipfile.ZipFile(wheel) as archive:
        members = archive.infolist()
        if len(members) > MAX_FILES:
            raise PackageError(f"{wheel.name} has more than {MAX_FILES} files")
        for member in members:
            path = PurePosixPath(member.filename)
            if member.is_dir():
                continue
            if path.is_absolute() or ".." in path.parts or "\\" in member.filename:
                raise PackageError(f"{wheel.name} has a file outside of its directory: {member.filename}")
            if ".data" in path.parts[0] or path.suffix in (".pth", ".so"):
                raise PackageError(f"{wheel.name} has {member.filename}, which would act outside of its modules")
            total += member.file_size
            if total > MAX_BYTES:
                raise PackageError(f"{wheel.name} is larger than {MAX_BYTES} bytes")
            with archive.open(member) as file:
                # The stated size may be a lie.
                content = file.read(member.file_size + 1)
            if len(content) != member.file_size:
                raise PackageError(f"{wheel.name}: {member.filename} is longer than it states")
            yield str(path), content


def write(files: dict[str, bytes], target: Path) -> None:
    """Writes an archive that depends on the files only."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            member = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            archive.writestr(member, files[path])
    os.chmod(target, 0o644)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
