"""Search for octets that break the broker's core: `make fuzz`, or `python -m tools.fuzz splits`.

Every target of `tests/fuzz/target.py` gets its share of the time in a process of its own. With
atheris installed the search follows coverage (libFuzzer); without it inputs are mutated at random.
What a search found worth keeping stays in `.cache/fuzz/`, so the next one goes on from there; an
input that breaks a target is written to `tests/fuzz/corpus/<target>/`, where the suite runs it from
then on, once what it shows is mended.
"""

import argparse
import hashlib
import importlib
import importlib.util
import os
import random
import subprocess
import sys
import traceback
from pathlib import Path
from time import monotonic
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CORPUS: Final = ROOT / "tests" / "fuzz" / "corpus"
CACHE: Final = ROOT / ".cache" / "fuzz"
# Longer inputs take longer than they find more.
INPUT_OCTETS_MAX: Final = 2048
# One input that takes this long is a finding.
INPUT_SECONDS_MAX: Final = 10
MEMORY_MIB_MAX: Final = 2048
# Inputs the search at random keeps to mutate further.
KEPT_MAX: Final = 5000


def main() -> int:
    parser = argparse.ArgumentParser(description="Search for inputs that break the broker's core.")
    parser.add_argument("targets", nargs="*", help="which targets (default: all)")
    parser.add_argument("--seconds", type=float, default=300, help="for all targets together")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--plain", action="store_true", help="at random even with atheris")
    parser.add_argument("--in-process", metavar="TARGET", help=argparse.SUPPRESS)
    options = parser.parse_args()
    # The sources, not the installed package: coverage is seen in the interpreted form only.
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    seed = options.seed or random.randrange(1, 1 << 31)
    guided = not options.plain and importlib.util.find_spec("atheris") is not None
    if options.in_process:
        search = search_guided if guided else search_at_random
        return search(options.in_process, options.seconds, seed)
    from tests.fuzz.target import TARGETS

    names = options.targets or list(TARGETS)
    unknown = set(names) - set(TARGETS)
    if unknown:
        parser.error(f"no such targets: {', '.join(sorted(unknown))}")
    print(f"fuzz: seed {seed}, {'following coverage' if guided else 'at random'}", flush=True)
    share = options.seconds / len(names)
    return max([run(name, share, seed, plain=options.plain) for name in names])


def run(name: str, seconds: float, seed: int, *, plain: bool) -> int:
    """Search one target in a process of its own."""
    command = [sys.executable, "-m", "tools.fuzz", f"--seconds={seconds}", f"--seed={seed}"]
    command += ["--in-process", name] + (["--plain"] if plain else [])
    began = monotonic()
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    verdict = "nothing found" if code == 0 else f"FOUND something, see {CORPUS / name}"
    print(f"fuzz {name}: {verdict}, {monotonic() - began:.0f} s", flush=True)
    return 0 if code == 0 else 1


def search_guided(name: str, seconds: float, seed: int) -> int:
    """Let libFuzzer choose the inputs; it ends the process itself."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["warren", "tests.fuzz"]):
        from tests.fuzz.target import TARGETS, seeds

    kept = CACHE / name
    kept.mkdir(parents=True, exist_ok=True)
    for data in [*seeds(name), *corpus(name)]:
        save(kept, data)
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    arguments = [
        f"-max_total_time={max(1, int(seconds))}",
        f"-seed={seed}",
        f"-max_len={INPUT_OCTETS_MAX}",
        f"-timeout={INPUT_SECONDS_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-artifact_prefix={CORPUS / name}{os.sep}",
        "-print_final_stats=1",
        "-verbosity=0",
        str(kept),
    ]
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name])
    atheris.Fuzz()
    return 0


def search_at_random(name: str, seconds: float, seed: int) -> int:
    """Mutate what there is, until the time is over or something breaks."""
    from tests.fuzz.target import TARGETS, seeds

    target, chance = TARGETS[name], random.Random(seed)
    kept = [*seeds(name), *corpus(name)]
    deadline = monotonic() + seconds
    count = 0
    while monotonic() < deadline:
        data = kept[count] if count < len(kept) else mutated(chance, kept)
        count += 1
        began = monotonic()
        try:
            target(data)
            if monotonic() - began > INPUT_SECONDS_MAX:
                raise TimeoutError(f"one input took {monotonic() - began:.1f} s")
        except Exception:
            traceback.print_exc()
            print(f"fuzz {name}: input {count} saved as {save(CORPUS / name, data)}", flush=True)
            return 1
        if len(kept) < KEPT_MAX and chance.random() < 0.05:
            kept.append(data)
    print(f"fuzz {name}: {count} inputs", flush=True)
    return 0


def mutated(chance: random.Random, kept: list[bytes]) -> bytes:
    """An input made from one or two others, or from nothing."""
    if chance.random() < 0.2:
        return chance.randbytes(chance.randrange(INPUT_OCTETS_MAX // 2))
    data = bytearray(chance.choice(kept))
    for _ in range(chance.randrange(1, 12)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0 if at < len(data):
                data[at] = chance.randrange(256)
            case 1:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 2:
                del data[at : at + chance.randrange(1, 9)]
            case _:
                other = chance.choice(kept)
                begin = chance.randrange(len(other) + 1)
                data[at:] = other[begin:]
    return bytes(data[:INPUT_OCTETS_MAX])


def corpus(name: str) -> list[bytes]:
    """The inputs that once broke a target."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*")) if path.is_file()]


def save(folder: Path, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    sys.exit(main())
