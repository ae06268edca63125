"""What every test shares: the form of the package under test, and how long hypothesis searches."""

import os

import hypothesis
import pytest

import warren
from warren import _build
from warren.testing import plugin

# In the suite the same examples each time, so that a red run is red again. `make fuzz` searches.
hypothesis.settings.register_profile("suite", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile(
    "long", max_examples=int(os.environ.get("WARREN_TEST_EXAMPLES", "20000")), deadline=None
)
hypothesis.settings.load_profile("suite")


def pytest_configure(config: pytest.Config) -> None:
    """The plugin comes with the installed package; a run on the sources has to bring it."""
    if not config.pluginmanager.hasplugin("warren"):
        config.pluginmanager.register(plugin, "warren")


def pytest_report_header(config: pytest.Config) -> str:
    forms = _build.forms()
    where = os.path.dirname(warren.__file__)
    return f"warren: {where}, {sum(forms.values())} of {len(forms)} listed modules compiled"
