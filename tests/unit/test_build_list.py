"""The list of compiled modules: complete, in order, and what the installed package says it is."""

import importlib
import importlib.machinery
import os
import subprocess
import sys
from pathlib import Path

import pytest

import build_ext
from warren import _build


def run_python(code: str, **switches: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter of the same environment, with only these switches set."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("WARREN_")}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env | switches, capture_output=True, text=True, check=False)


installed = pytest.mark.skipif(
    not _build.compiled_modules(), reason="runs on an installed package; this is a source checkout"
)
# With I/O, and yet compiled: every octet that comes or goes passes through these two.
ON_THE_PATH_OF_EVERY_OCTET = {"warren.server.hub", "warren.server.socket_link"}
FIRST = build_ext.COMPILED[0]
SHOW_FORMS = "import warren._build as build; print(sorted(set(build.forms().values())))"


def test_every_listed_module_has_a_source_file() -> None:
    assert build_ext.missing() == []


def test_the_list_is_sorted_and_names_each_module_once() -> None:
    assert list(build_ext.COMPILED) == sorted(set(build_ext.COMPILED))


def test_only_machines_without_io_the_sockets_loop_and_the_load_generator_are_compiled() -> None:
    machines = {"protocol", "session", "routing", "queues", "store", "flow", "vhost"}
    others = set(build_ext.COMPILED) - ON_THE_PATH_OF_EVERY_OCTET
    assert {module.split(".")[1] for module in others} <= machines | {"bench"}
    assert set(build_ext.COMPILED) >= ON_THE_PATH_OF_EVERY_OCTET


@installed
def test_the_installed_package_was_built_from_this_list() -> None:
    assert _build.compiled_modules() == build_ext.COMPILED


@installed
@pytest.mark.compiled
@pytest.mark.parametrize("module", build_ext.COMPILED)
def test_a_listed_module_is_loaded_as_native_code(module: str) -> None:
    loaded = importlib.import_module(module)
    assert str(loaded.__file__).endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))
    assert _build.is_compiled(module)


@installed
@pytest.mark.parametrize("module", build_ext.COMPILED)
def test_the_source_lies_beside_its_compiled_twin(module: str) -> None:
    package = Path(str(_build.__file__)).parent
    assert package.joinpath(*module.split(".")[1:]).with_suffix(".py").is_file()


@installed
def test_warren_pure_loads_sources_although_compiled_twins_lie_beside_them() -> None:
    code = f"import importlib; m = importlib.import_module({FIRST!r}); print(m.__file__[-3:])"
    assert run_python(code, WARREN_PURE="1").stdout.split() == [".py"]
    assert run_python(SHOW_FORMS, WARREN_PURE="1").stdout.split() == ["[False]"]


@installed
def test_require_compiled_refuses_the_interpreted_form_and_names_the_modules() -> None:
    refused = run_python("import warren", WARREN_PURE="1", WARREN_REQUIRE_COMPILED="1")
    assert refused.returncode != 0
    assert f"not compiled: {FIRST}" in refused.stderr


@installed
@pytest.mark.compiled
def test_require_compiled_accepts_a_compiled_package() -> None:
    accepted = run_python(SHOW_FORMS, WARREN_REQUIRE_COMPILED="1")
    assert accepted.stdout.split() == ["[True]"]


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = "import sys, warren; print([name for name in sys.modules if name.startswith('warren.')])"
    assert run_python(code).stdout.split() == ["[]"]
