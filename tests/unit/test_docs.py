"""The documents tell what the code has: links, names, settings, verbs, tables, constants."""

import ast
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.document import MEASURED, ROOT, Document, document, document_paths
from warren.cli import exit as exit_codes
from warren.cli.main import VERBS, main
from warren.flow import Change, Reason
from warren.server import diagnosis
from warren.server.config import KEYS
from warren.server.config_load import load

PATHS: Final = document_paths()
TOURS: Final = ("ARCHITECTURE.md", "docs/internals/hot-path.md", "docs/internals/flow.md")
LOCK_FILE: Final = "warren.lock"
UNITS: Final = {"KiB": 1024, "MiB": 1 << 20, "ms": 1_000_000}


@pytest.fixture(scope="module")
def source_words() -> set[str]:
    """Every word of the package, of the build and of the tests' settings."""
    files = [*(ROOT / "src").rglob("*.py"), ROOT / "build_ext.py", ROOT / "pyproject.toml"]
    return {word for file in files for word in re.findall(r"\w+", file.read_text())}


@pytest.mark.parametrize("path", PATHS)
def test_a_document_has_one_title(path: str) -> None:
    assert len(document(path).titles()) == 1


@pytest.mark.parametrize("path", PATHS)
def test_links_lead_somewhere(path: str) -> None:
    for link in document(path).links():
        name, _, anchor = link.partition("#")
        target = (ROOT / path).parent.joinpath(name).resolve() if name else ROOT / path
        if str(target.relative_to(ROOT)) in MEASURED:
            continue
        assert target.exists(), link
        if anchor:
            assert anchor in Document(name, target.read_text()).anchors(), link


def test_the_site_has_every_page_once() -> None:
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [path.removeprefix("docs/") for path in [*PATHS, *MEASURED] if path.startswith("docs/")]
    assert len(listed) == len(set(listed))
    missing = set(pages) - set(listed) - {one.removeprefix("docs/") for one in MEASURED}
    assert missing == set(), "add it to nav in mkdocs.yml"
    assert set(listed) <= set(pages)


@pytest.mark.parametrize("path", TOURS)
def test_names_in_the_tours_exist(path: str, source_words: set[str]) -> None:
    for name in document(path).code():
        if re.fullmatch(r"[\w/]+\.py", name):
            assert (ROOT / "src/warren" / name).exists() or (ROOT / name).exists(), name
        elif re.fullmatch(r"warren(\.\w+)+", name) and name != LOCK_FILE:
            assert importlib.util.find_spec(name) is not None, name
        elif re.fullmatch(r"\w+(\.\w+)*", name) and not (ROOT / name).exists():
            assert set(re.findall(r"\w+", name)) <= source_words, name


def test_the_architecture_has_every_package() -> None:
    packages = {file.parent.name for file in (ROOT / "src/warren").glob("*/__init__.py")}
    rows = document("ARCHITECTURE.md").rows("package")
    assert {row[0].strip("`").removeprefix("warren.") for row in rows} == packages


# -- settings ------------------------------------------------------------------------------------


def settings_named(text: str) -> Iterator[str]:
    """Settings in commands, in variables, in answers of `warren why` and in the prose."""
    yield from (name for name in re.findall(r"--set (\w+)=", text) if name != "KEY")
    yield from re.findall(r"Setting: (\w+)\s*$", text, re.MULTILINE)
    for name in re.findall(r"\bWARREN_([A-Z_]+)=", text):
        if not re.match(r"PURE|REQUIRE_COMPILED|DEBUG|BUILD|CONFIG|TEST|BENCH|SIM|SERVICE", name):
            yield name.lower()


@pytest.mark.parametrize("path", PATHS)
def test_settings_exist(path: str) -> None:
    for name in settings_named(document(path).text):
        assert name in KEYS


def test_the_limits_are_decided_by_settings() -> None:
    rows = document("docs/reference/amqp.md").rows("what")
    named = [row[2].strip("`") for row in rows if row[2]]
    assert named
    assert set(named) <= set(KEYS)


@pytest.mark.parametrize("path", [p for p in PATHS if document(p).blocks("toml")])
def test_configuration_files_are_taken(path: str, tmp_path: Path) -> None:
    for number, block in enumerate(document(path).blocks("toml")):
        text = block.text
        for name in re.findall(r'"(/\S+\.pem)"', text):
            local = tmp_path / Path(name).name
            local.touch()
            text = text.replace(name, str(local))
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        load(file=file, env={})


# -- the command line ----------------------------------------------------------------------------


def commands(path: str) -> Iterator[list[str]]:
    """Every `warren VERB ...` of a document, in blocks and in the prose."""
    found = document(path)
    lines = [line for block in found.blocks() for line in block.text.splitlines()]
    for text in lines + found.code():
        match = re.match(r"(?:\$ )?(?:\.venv/bin/|/opt/warren/bin/)?warren ([a-z].*)", text)
        if match:
            yield shlex.split(match[1].replace("[", "").replace("]", ""), comments=True)


@pytest.mark.parametrize("path", [path for path in PATHS if any(commands(path))])
def test_commands_and_their_options_exist(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    for verb, *words in commands(path):
        if verb == "VERB":
            continue
        assert verb in VERBS, verb
        options = {word.partition("=")[0] for word in words if word.startswith("-")} - {"--help"}
        if options:
            main([verb, "--help"])
            known = set(re.findall(r"--?[\w-]+", capsys.readouterr().out))
            assert options <= known, f"{verb} {options - known}"


def test_every_verb_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    rows = document("docs/reference/cli.md").rows("verb")
    assert sorted(row[0].strip("`") for row in rows) == sorted(VERBS)
    for verb, _, options in rows:
        name = verb.strip("`")
        main([name, "--help"])
        shown = capsys.readouterr().out
        for option in re.findall(r"`(--[\w-]+)", options):
            assert option in shown, f"{name} {option}"


def test_exit_codes() -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}
    rows = document("docs/reference/cli.md").rows("code")
    assert {int(row[0]) for row in rows} == codes
    health = {int(row[0]) for row in document("docs/operations/health.md").rows("exit code")}
    assert health <= codes


# -- tables of what the code has -----------------------------------------------------------------


def test_every_reason_of_a_wait_is_told() -> None:
    told = {row[0].strip("`"): row[1] for row in document("docs/reference/waits.md").rows("reason")}
    states = diagnosis._STATES
    assert told == {reason.value: states.get(reason, "waiting") for reason in Reason}


def events() -> set[str]:
    """The names of all events that the package writes."""
    names = {Change.SET.value, Change.CLEARED.value}
    for file in (ROOT / "src/warren").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in {"event", "_write", "_line"}:
                texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
                names.update(one for one in texts if isinstance(one, str) and "." in one)
    return names


def test_every_event_of_the_log_is_told() -> None:
    rows = document("docs/reference/log-events.md").rows("event")
    assert {row[0].strip("`") for row in rows} == events()


def numbers(text: str) -> list[float]:
    """The numbers at the heads of comma-separated parts, in octets, nanoseconds or as they are."""
    parts = (re.match(r"([\d.,]*\d)\s*(\w*)", part) for part in re.split(r", ", text))
    found = [match for match in parts if match is not None]
    return [float(one[1].replace(",", "")) * UNITS.get(one[2], 1) for one in found]


def test_the_constants_of_the_hot_path_are_as_told() -> None:
    files = [one for one in (ROOT / "src/warren").rglob("*.py") if one.parent.name != "bench"]
    source = "\n".join(file.read_text() for file in files)
    for names, value, _ in document("docs/internals/hot-path.md").rows("constant"):
        constants = re.findall(r"`(\w+)`", names)
        told = numbers(value)
        assert len(told) == len(constants), names
        for name, number in zip(constants, told, strict=True):
            match = re.search(rf"^{name}: Final(?:\[i64\])? = ([\d_< ]+)", source, re.MULTILINE)
            assert match is not None, name
            base, _, shift = match[1].partition("<<")
            assert int(base) << int(shift or 0) == number, name


def test_defences_are_shown_by_tests_that_exist() -> None:
    """`conformance/test_x.py::test_y`, under tests/, in the threat model."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", document("docs/THREAT_MODEL.md").text)
    assert len(named) > 40
    missing = [
        f"{path}::{name}"
        for path, name in named
        if f"def {name}(" not in (ROOT / "tests" / path).read_text()
    ]
    assert missing == []
