"""Crash the persistence layer on a simulated disk, many times: `make crash POINTS=100000`.

Seeds are tried one after the other, on all processors, until so many crashes were looked at, at
half as many calls of damage. `--seed N` repeats one of them. Exit code 1 and the seed if what a
crash left is not what was promised.
"""

import argparse
import os
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parent.parent
# So many seeds are one piece of work for a process.
SEEDS = 4


def crash(first: int) -> tuple[int, int, str]:
    """Try some seeds; return crashes, damages, and what is wrong."""
    sys.path.insert(0, str(ROOT))
    from tests.support import store_damage, store_script, store_workload

    points = damages = 0
    for seed in range(first, first + SEEDS):
        try:
            points += store_workload.run(seed)
            if seed % 10 == 0:
                points += store_script.script(seed, copies=4, deep=0.05)
            damages += store_damage.run(seed)[0]
        except Exception:
            return points, damages, f"seed {seed}\n{traceback.format_exc()}"
    return points, damages, ""


def main() -> int:
    parser = argparse.ArgumentParser(description="crash the persistence layer many times")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        print(*crash(arguments.seed))
        return 0
    start = time.monotonic()
    points = damages = 0
    workers = os.cpu_count() or 1
    first = count(0, SEEDS)
    with ProcessPoolExecutor(workers) as pool:
        while points < arguments.points:
            for some, more, wrong in pool.map(crash, [next(first) for _ in range(4 * workers)]):
                points += some
                damages += more
                if wrong:
                    print(wrong)
                    return 1
    took = time.monotonic() - start
    print(f"{points} crashes and {damages} damaged disks, nothing wrong, in {took:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
