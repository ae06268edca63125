"""`tools/tidy.py`: this tree is tidy, and each rule finds what it is there to find."""

import ast
from pathlib import Path

import pytest

from tools import tidy

HEADER = '"""Owns a thing; must never do another. Start here."""\n'


def tree_of(**texts: str) -> tidy.Tree:
    """A tree from texts; in the names `__` stands for a slash and `_dot_` for a dot."""
    files = {name.replace("__", "/").replace("_dot_", "."): text for name, text in texts.items()}
    modules = {name: ast.parse(text) for name, text in files.items() if name.endswith(".py")}
    return tidy.Tree(files, modules)


def test_this_tree_is_tidy() -> None:
    root = Path(__file__).parent.parent.parent
    assert tidy.findings(tidy.read(root)) == []


def test_a_copy_without_git_is_read_without_what_tools_leave_behind(tmp_path: Path) -> None:
    for name in ("src/warren/a.py", ".ci/run", ".venv/lib/b.py", "src/__pycache__/c.py", "dist/d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert sorted(tidy.read(tmp_path).texts) == [".ci/run", "src/warren/a.py"]


def test_a_module_nobody_imports_is_dead() -> None:
    tree = tree_of(src__warren__a_dot_py=HEADER, src__warren__b_dot_py=HEADER + "import warren.a\n")
    assert list(tidy.dead_modules(tree)) == ["src/warren/b.py: no module of the package imports it"]


@pytest.mark.parametrize(
    "use",
    ["import warren.a", "from warren import a", "from warren.a import x", "NAME = 'warren.a:x'"],
)
def test_every_form_of_use_keeps_a_module_alive(use: str) -> None:
    found = tidy.imports_of(ast.parse(use))
    assert "warren.a" in found


def test_a_module_that_imports_itself_is_still_dead() -> None:
    tree = tree_of(src__warren__a_dot_py=HEADER + "import warren.a\n")
    assert len(list(tidy.dead_modules(tree))) == 1


def test_a_module_without_a_docstring_is_found() -> None:
    assert list(tidy.headers(tree_of(a_dot_py="x = 1\n"))) == [
        "a.py: no docstring says what the module owns"
    ]


def test_a_package_says_what_it_must_never_do_and_where_to_start() -> None:
    name = "src/warren/p/__init__.py"
    text = '"""Owns a thing."""\n'
    found = list(tidy.headers(tidy.Tree({name: text}, {name: ast.parse(text)})))
    assert [line.partition(": ")[2] for line in found] == [
        "the package docstring does not say what the package must never do",
        "the package docstring does not say where to start reading",
    ]


@pytest.mark.parametrize("word", ["FIX" + "ME", "TO" + "DO", "XX" + "X"])
def test_a_leftover_note_is_found_with_its_line(word: str) -> None:
    found = list(tidy.leftovers(tree_of(a_dot_py=f"x = 1\n# {word} later\n")))
    assert found == ["a.py:2: a leftover note"]


@pytest.mark.parametrize(
    "path", ["/wo" + "rk/main/x", "/ro" + "ot/.config", "/tmp/" + "bash_jobs.0"]
)
def test_a_path_of_one_machine_is_found(path: str) -> None:
    assert len(list(tidy.leftovers(tree_of(a_dot_md=f"see {path}\n")))) == 1


@pytest.mark.parametrize("text", ["api/work", "${HOME}/root", "/workers", "a network/root cause"])
def test_words_that_only_look_like_such_a_path_are_not(text: str) -> None:
    assert list(tidy.leftovers(tree_of(a_dot_md=text + "\n"))) == []


@pytest.mark.parametrize(("text", "count"), [("", 0), ("# A\n\n## B\n", 1), ("# A\n# B\n", 2)])
def test_a_document_has_one_title(text: str, count: int) -> None:
    found = list(tidy.titles(tree_of(a_dot_md=text)))
    assert found == ([] if count == 1 else [f"a.md: {count} titles"])


def test_a_comment_in_an_example_is_not_a_title() -> None:
    assert list(tidy.titles(tree_of(a_dot_md="# A\n\n```sh\n# not a title\n```\n"))) == []


def test_a_change_fragment_has_no_title() -> None:
    assert list(tidy.titles(tree_of(changes__12_dot_feature_dot_md="Added it.\n"))) == []


def test_a_module_over_the_limit_is_found_unless_it_is_generated() -> None:
    long = "x = 1\n" * (tidy.MODULE_LINES_MAX + 1)
    assert len(list(tidy.sizes(tree_of(tools__a_dot_py=HEADER + long)))) == 1
    generated = f'"""{tidy.GENERATED} a tool."""\n'
    assert list(tidy.sizes(tree_of(tools__a_dot_py=generated + long))) == []


def test_a_function_over_the_limit_is_found() -> None:
    body = "    x = 1\n" * tidy.FUNCTION_LINES_MAX
    found = list(tidy.sizes(tree_of(tools__a_dot_py=f"def f():\n{body}")))
    assert found == [f"tools/a.py: f has {tidy.FUNCTION_LINES_MAX + 1} lines, more than 70"]


def test_a_median_over_the_limit_is_found() -> None:
    text = "x = 1\n" * (tidy.MODULE_LINES_MEDIAN_MAX + 1)
    found = list(tidy.sizes(tree_of(src__warren__a_dot_py=text, src__warren__b_dot_py=text)))
    assert found == ["src: the median module has 271 lines, more than 270"]


def test_an_exception_that_excuses_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tidy.LONGER, "src/gone.py:f", "a hot loop")
    found = list(tidy.unused_exceptions(tree_of(src__warren__a_dot_py=HEADER)))
    assert "tools/tidy.py: the exception for src/gone.py:f is not needed" in found
