"""An engine without processes."""

from cxrtext.jobs.engines.engine import Engine, Outcome, Task, Work, attempt


class Here:
    """An engine that works in this process, last task first."""

    slots = 2

    def __init__(self, work: Work) -> None:
        self._work, self._tasks = work, list[Task]()

    def submit(self, task: Task) -> None:
        self._tasks.append(task)

    def next(self, wait_s: float) -> Outcome | None:
        task = self._tasks.pop()
        return Outcome(task, *attempt(self._work, task))

    def close(self) -> None:
        self._tasks.clear()


def start(work: Work) -> Engine:
    return Here(work)
