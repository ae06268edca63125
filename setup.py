"""The part of the build that pyproject.toml cannot say: see build_ext.py."""

import sys
from pathlib import Path

from setuptools import setup

# pip runs this file without its folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

from build_ext import BUILD_BASE, COMMANDS, extensions

setup(
    ext_modules=extensions(sys.argv),
    cmdclass=COMMANDS,
    options={"build": {"build_base": BUILD_BASE}},
)
