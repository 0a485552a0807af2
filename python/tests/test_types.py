"""The types of the native module (`_native.pyi`) have the names of the module itself."""

import ast
import inspect
import unittest
from pathlib import Path

import rosemary
from rosemary import _native

STUB = Path(rosemary.__file__).with_name("_native.pyi")


def declared(body):
    """The public names that a part of the stub declares."""
    named = {item.name: item for item in body if isinstance(item, (ast.FunctionDef, ast.ClassDef))}
    for item in body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            named[item.target.id] = item
    return {name: item for name, item in named.items() if not name.startswith("_")}


class Types(unittest.TestCase):
    def setUp(self):
        self.stub = declared(ast.parse(STUB.read_text(encoding="utf-8")).body)

    def test_module_has_all_names_of_the_stub(self):
        own = {name for name in vars(_native) if not name.startswith("_")}
        self.assertEqual(own, set(self.stub))

    def test_classes_have_all_names_of_the_stub(self):
        stub = ast.parse(STUB.read_text(encoding="utf-8")).body
        about_switch = next(it for it in stub if isinstance(it, ast.ClassDef) and it.name == "_AboutSwitch")
        for name, item in self.stub.items():
            if not isinstance(item, ast.ClassDef) or issubclass(getattr(_native, name), Exception):
                continue
            with self.subTest(name):
                expected = set(declared(item.body))
                if any(getattr(base, "id", "") == "_AboutSwitch" for base in item.bases):
                    expected |= set(declared(about_switch.body))
                own = {it for it in vars(getattr(_native, name)) if not it.startswith("_")}
                self.assertEqual(own, expected)

    def test_arguments_have_the_names_of_the_stub(self):
        for name, item in self.stub.items():
            if not isinstance(item, ast.ClassDef) or issubclass(getattr(_native, name), Exception):
                continue
            for member, function in declared(item.body).items():
                value = inspect.getattr_static(getattr(_native, name), member)
                callable_ = value.__func__ if isinstance(value, staticmethod) else value
                if not isinstance(function, ast.FunctionDef) or not callable(callable_):
                    continue
                with self.subTest(f"{name}.{member}"):
                    own = [it.name for it in inspect.signature(callable_).parameters.values()]
                    if function.args.kwarg or (name, member) in {("FlowMod", it) for it in ("add", "modify", "delete")}:
                        continue  # keyword arguments, which the stub names
                    wanted = [it.arg for it in function.args.args + function.args.kwonlyargs]
                    self.assertEqual(own, wanted)

    def test_constructors_have_the_arguments_of_the_stub(self):
        compared = 0
        for name, item in self.stub.items():
            made = [it for it in getattr(item, "body", ()) if getattr(it, "name", "") == "__new__"]
            if not made or made[0].args.kwarg:
                continue
            with self.subTest(name):
                arguments = made[0].args
                wanted = [it.arg for it in arguments.args[1:] + arguments.kwonlyargs]
                optional = len(arguments.defaults) + sum(it is not None for it in arguments.kw_defaults)
                own = inspect.signature(getattr(_native, name)).parameters.values()
                self.assertEqual([it.name for it in own], wanted)
                keywords = [it.name for it in own if it.kind is it.KEYWORD_ONLY]
                self.assertEqual(keywords, [it.arg for it in arguments.kwonlyargs])
                self.assertEqual(sum(it.default is not it.empty for it in own), optional)
                compared += 1
        self.assertGreater(compared, 20)


if __name__ == "__main__":
    unittest.main()
