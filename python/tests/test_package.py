"""Packages of apps: what joins the archive, and what is refused."""

import hashlib
import io
import os
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from rosemary import _package as package


class Packages(unittest.TestCase):
    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory())) if hasattr(
            self, "enterContext"
        ) else Path(tempfile.mkdtemp())

    def wheel(self, name, files):
        path = self.directory / name
        with zipfile.ZipFile(path, "w") as archive:
            for file, content in files.items():
                archive.writestr(file, content)
        return path

    def test_archive_has_modules_and_no_tests(self):
        (self.directory / "app.py").write_text("x = 1\n")
        (self.directory / "test_app.py").write_text("")
        (self.directory / "secret.txt").write_text("")
        (self.directory / "part").mkdir()
        (self.directory / "part" / "__init__.py").write_text("")
        (self.directory / "link.py").symlink_to("/etc/passwd")
        files = dict(package.modules(self.directory))
        self.assertEqual(sorted(files), ["app.py", "part/__init__.py"])
        one, two = self.directory / "1", self.directory / "2"
        package.write(files, one)
        package.write(dict(reversed(files.items())), two)
        self.assertEqual(one.read_bytes(), two.read_bytes())

    def test_modules_with_errors_of_syntax_are_refused(self):
        (self.directory / "app.py").write_text("x = 1\n")
        part = self.directory / "part.py"
        for wrong, where in ((b"x = 1\ndef f(:\n", "part.py:2: "), (b"x\0", "part.py")):
            part.write_bytes(wrong)
            with self.assertRaisesRegex(package.PackageError, where):
                dict(package.modules(self.directory))
        part.write_text("raise SystemExit('it ran')\n")
        self.assertIn("part.py", dict(package.modules(self.directory)))

    def test_hostile_wheels_are_refused(self):
        good = self.wheel("good-1-py3-none-any.whl", {"good/__init__.py": ""})
        self.assertEqual([name for name, _ in package.unpacked(good)], ["good/__init__.py"])
        cases = {
            "evil-1-py3-none-any.whl": {"../evil.py": ""},
            "root-1-py3-none-any.whl": {"/evil.py": ""},
            "pth-1-py3-none-any.whl": {"evil.pth": "import os"},
            "data-1-py3-none-any.whl": {"data-1.data/scripts/python3": ""},
            "native-1-cp311-cp311-linux_x86_64.whl": {"native.so": ""},
            "source-1.tar.gz": {"setup.py": ""},
        }
        for name, files in cases.items():
            with self.assertRaises(package.PackageError, msg=name):
                list(package.unpacked(self.wheel(name, files)))

    def test_source_distribution_runs_no_code(self):
        links = self.directory / "links"
        links.mkdir()
        marker = self.directory / "ran"
        with tarfile.open(links / "evil-1.tar.gz", "w:gz") as archive:
            content = f"open({str(marker)!r}, 'w')\n".encode()
            member = tarfile.TarInfo("evil-1/setup.py")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        digest = hashlib.sha256((links / "evil-1.tar.gz").read_bytes()).hexdigest()
        (self.directory / "requirements.txt").write_text(f"evil==1 --hash=sha256:{digest}\n")
        with mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links)}):
            with self.assertRaises(package.PackageError):
                list(package.wheels(self.directory))
        self.assertFalse(marker.exists())

    def test_locked_wheel_joins_the_archive(self):
        wheel = self.wheel("good-1-py3-none-any.whl", {
            "good.py": "",
            "good-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: good\nVersion: 1\n",
            "good-1.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
            "good-1.dist-info/RECORD": "",
        })
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        locked = self.directory / "requirements.txt"
        with mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.directory)}):
            locked.write_text(f"good==1 --hash=sha256:{digest}\n")
            self.assertIn("good.py", dict(package.wheels(self.directory)))
            locked.write_text(f"good==1 --hash=sha256:{'0' * 64}\n")
            with self.assertRaises(package.PackageError):
                list(package.wheels(self.directory))


if __name__ == "__main__":
    unittest.main()
