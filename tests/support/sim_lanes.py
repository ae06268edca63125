"""Lanes whose threads take turns: `warren.core.seam.Lanes` under the orders of a seed.

Each lane is a thread, but only one runs at a time: it stops before each call of `SimFiles`, and
`step` chooses who goes on: a lane with its next call, or the end of a job that has to be told. So
jobs of different lanes interleave in any way, call by call, and the same seed gives the same run.
`kill` ends all of it in the middle, as a crash does.
"""

import threading
from collections import deque
from random import Random
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from tests.support.sim_files import SimFiles
    from warren.core.seam import Job


class Killed(BaseException):
    """The process is no more."""


@final
class Lane:
    def __init__(self, files: "SimFiles") -> None:
        self.files = files
        self.jobs: deque[Job] = deque()
        self.ended: deque[tuple[Job, Exception | None]] = deque()
        self.running = False
        self.dead = False
        self.go = threading.Semaphore(0)
        self.back = threading.Semaphore(0)
        self.thread: threading.Thread | None = None

    def resume(self) -> None:
        """Let the lane go on until its next call, or the end of its job."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._work, daemon=True)
            self.thread.start()
        self.running = True
        self.go.release()
        self.back.acquire()

    def pause(self) -> None:
        if self.dead:
            raise Killed
        self.back.release()
        self.go.acquire()
        if self.dead:
            raise Killed

    def _work(self) -> None:
        while True:
            self.go.acquire()
            if self.dead:
                break
            job = self.jobs.popleft()
            error: Exception | None = None
            try:
                job.run(self.files)
            except Killed:
                break
            except Exception as failure:  # As the lanes of the machine do.
                error = failure
            self.running = False
            self.ended.append((job, error))
            self.back.release()

    def kill(self) -> None:
        self.dead = True
        if self.thread is not None:
            self.go.release()
            self.thread.join()


@final
class SimLanes:
    def __init__(self, files: "SimFiles", random: Random) -> None:
        self.files = files
        self.random = random
        self.lanes: dict[int, Lane] = {}
        self.current: Lane | None = None
        files.gate = self._gate

    def submit(self, lane: int, job: "Job") -> None:
        if lane not in self.lanes:
            self.lanes[lane] = Lane(self.files)
        self.lanes[lane].jobs.append(job)

    def _gate(self, call: str, path: str) -> None:
        lane = self.current
        if lane is not None and threading.current_thread() is lane.thread:
            lane.pause()
        elif any(lane.dead for lane in self.lanes.values()):
            raise Killed

    def step(self) -> bool:
        """Do one thing that can be done; False if there is none."""
        able = [lane for lane in self.lanes.values() if lane.running or lane.jobs]
        telling = [lane for lane in self.lanes.values() if lane.ended]
        if not able and not telling:
            return False
        choice = self.random.randrange(len(able) + len(telling))
        if choice < len(able):
            self.current = able[choice]
            self.current.resume()
            self.current = None
        else:
            job, error = telling[choice - len(able)].ended.popleft()
            job.done(error)
        return True

    def kill(self) -> None:
        for lane in self.lanes.values():
            lane.kill()


@final
class DirectLanes:
    """Jobs are done at once, and told when `run` is called."""

    def __init__(self, files: "SimFiles") -> None:
        self.files = files
        self.ended: deque[tuple[Job, Exception | None]] = deque()

    def submit(self, lane: int, job: "Job") -> None:
        error: Exception | None = None
        try:
            job.run(self.files)
        except Exception as failure:  # As the lanes of the machine do.
            error = failure
        self.ended.append((job, error))

    def run(self) -> None:
        while self.ended:
            job, error = self.ended.popleft()
            job.done(error)
