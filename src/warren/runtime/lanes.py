"""Threads that do jobs on files, as `warren.core.seam.Lanes`: one thread for each lane.

A thread begins with the first job of its lane. Ends of jobs are told on the loop, those of one
lane in order. `close` waits until everything that was submitted is done.
"""

import queue
import threading
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from warren.core.seam import Files, Job

CLOSE_WAIT_S: Final = 30.0


@final
class ThreadLanes:
    def __init__(
        self,
        files: "Files",
        call: "Callable[[Callable[[Exception | None], None], Exception | None], object]",
    ) -> None:
        self.files = files
        # Has a function called on the loop; may be called by any thread.
        self.call = call
        self._lanes: dict[int, queue.SimpleQueue[Job | None]] = {}
        self._threads: list[threading.Thread] = []

    def submit(self, lane: int, job: "Job") -> None:
        jobs = self._lanes.get(lane)
        if jobs is None:
            jobs = queue.SimpleQueue()
            self._lanes[lane] = jobs
            thread = threading.Thread(
                target=self._run, args=(jobs,), name=f"warren-disk-{lane}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        jobs.put(job)

    def _run(self, jobs: "queue.SimpleQueue[Job | None]") -> None:
        while True:
            job = jobs.get()
            if job is None:
                return
            error: Exception | None = None
            try:
                job.run(self.files)
            except Exception as failure:  # Whoever submitted the job decides what it means.
                error = failure
            try:
                self.call(job.done, error)
            except RuntimeError:
                # The loop is closed: nobody is there to be told.
                return
            del job, error

    def close(self) -> bool:
        """Wait for what was submitted; False if a disk does not answer."""
        for jobs in self._lanes.values():
            jobs.put(None)
        for thread in self._threads:
            thread.join(CLOSE_WAIT_S)
        return not any(thread.is_alive() for thread in self._threads)
