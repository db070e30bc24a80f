"""Which cell runs and which waits: one execute at a time on each (sub)shell, in the order they came.

ipykernel would queue the cells of a Run All itself. They wait here, because before each one the workspace
is remounted and its host magics run, at the moment when the cells before it are done. What comes behind a
waiting cell on the same (sub)shell waits with it; a failed cell aborts those that wait, as ipykernel does.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from sentinel_kernel.errors import ProtocolError
from sentinel_kernel.kernel.cells import Cell, Stage, read_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.outbox import Outbox
    from sentinel_kernel.kernel.requests import Request
    from sentinel_kernel.kernel.wire import Json

    Begin = Callable[[Cell], None]
    LaneKey = tuple[str, str]

_OUTSTANDING = 10_000
"""The most unanswered requests that are remembered; older ones are forgotten (their client has long gone)."""

_WHO = "kernel_info_request"
_OVERTAKING = frozenset({"comm_open", "comm_msg", "comm_close"})
"""Messages that do not wait behind waiting cells: the running one may be awaiting them (ipykernel 7.4)."""

ABORTED: Json = {"status": "aborted"}


class _Lane:
    """One (sub)shell's queue: waiting messages, and the cell that is under way."""

    __slots__ = ("advancing", "current", "queue")

    def __init__(self) -> None:
        self.advancing = False
        self.queue: deque[Request | Cell] = deque()
        self.current: Cell | None = None

    def takes(self, head: Request | Cell) -> bool:
        """Tell whether it is the turn of ``head``: a cell's when none is under way, a request's at once.

        A cell that is being opened is not with the worker yet; what comes behind it must not get there first.
        """
        if self.current is None:
            return True
        return not isinstance(head, Cell) and self.current.stage is not Stage.OPENING


class Execution:
    """Keeps the queues. ``begin`` starts a cell's way to the worker, ``forward`` sends other requests.

    ``quiet`` is called when a cell has ended and no other runs or waits.
    """

    def __init__(
        self,
        outbox: Outbox,
        begin: Begin,
        forward: Callable[[Request], None],
        quiet: Callable[[], None],
    ) -> None:
        self._outbox = outbox
        self._quiet = quiet
        self._begin = begin
        self._forward = forward
        self._lanes: dict[LaneKey, _Lane] = {}
        self._outstanding: OrderedDict[str, Request] = OrderedDict()
        self.held = True
        """Nothing is forwarded while there is no worker to take it."""

        self.running: dict[str, Cell] = {}
        """The cells that the worker has, by msg_id, oldest first."""

        self.last_cell: Cell | None = None
        self.last_count = 0
        """The execution count that was seen last."""

    @property
    def waiting(self) -> int:
        """How many messages wait in the queues."""
        return sum(len(lane.queue) for lane in self._lanes.values())

    def add(self, request: Request) -> None:
        """Take a client's shell (or control) request: forward it, or let it wait for its turn."""
        key = (request.channel, request.subshell_id)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        if request.msg_type == "execute_request":
            try:
                lane.queue.append(read_cell(request))
            except ProtocolError as error:
                self._outbox.answer(request, {"status": "error", **_unreadable(str(error))})
        elif not self.held and (request.channel == "control" or request.msg_type in _OVERTAKING):
            self._send(request)
        else:
            lane.queue.append(request)
        self._advance(key)

    def resume(self) -> None:
        """Let everything that waits go on: there is a worker again, or the host answers for it."""
        self.held = False
        for key in list(self._lanes):
            self._advance(key)

    def sent(self, cell: Cell) -> None:
        """Take note that the worker has ``cell`` now."""
        cell.stage = Stage.RUNNING
        self.running[cell.request.msg_id] = cell
        self._advance(_key(cell.request))

    def newest(self) -> Cell | None:
        """Return the cell that began last among those running, else the last one that ran."""
        return next(reversed(self.running.values())) if self.running else self.last_cell

    def code_of(self, msg_id: str) -> str | None:
        """Return the code of a cell that runs, or ran last."""
        cell = self._known(msg_id)
        return cell.code if cell is not None else None

    def takes_input(self, msg_id: str) -> bool:
        """Tell whether the client that sent a cell can be asked; of a cell that is gone nobody knows otherwise."""
        cell = self._known(msg_id)
        return cell is None or cell.client_answers

    def _known(self, msg_id: str) -> Cell | None:
        cell = self.running.get(msg_id) or self.last_cell
        return cell if cell is not None and cell.request.msg_id == msg_id else None

    def opening(self) -> Cell | None:
        """Return a cell that is on its way to the worker, if any: its magic may wait for a sandbox."""
        for lane in self._lanes.values():
            if lane.current is not None and lane.current.stage is Stage.OPENING:
                return lane.current
        return None

    def beside(self, cell: Cell) -> bool:
        """Tell whether another cell is with the worker, or on its way there."""
        others = [*self.running.values(), *(lane.current for lane in self._lanes.values() if lane.current)]
        return any(other is not cell for other in others)

    def take_outstanding(self, msg_id: str) -> Request | None:
        """Return the request that a reply answers, once."""
        return self._outstanding.pop(msg_id, None)

    def abort_behind(self, cell: Cell) -> None:
        """Abort every cell that waits behind ``cell``, which failed."""
        lane = self._lanes.get(_key(cell.request))
        if lane is not None:
            for waiting in lane.queue:
                if isinstance(waiting, Cell):
                    waiting.aborted = True

    def finish(self, cell: Cell) -> None:
        """Close ``cell``, which has been answered and is idle, and begin what waits behind it."""
        cell.stage = Stage.DONE
        self.running.pop(cell.request.msg_id, None)
        self.last_cell = cell
        key = _key(cell.request)
        lane = self._lanes.get(key)
        if lane is not None and lane.current is cell:
            lane.current = None
            self._advance(key)
        if not self.running and not self._lanes:
            self._quiet()

    def clear(self, *, abort_waiting: bool, keep: Cell | None = None) -> tuple[list[Cell], list[Request]]:
        """Give up what the worker has: it is gone. Nothing is forwarded any more until ``resume``.

        Cells that wait, or are not with the worker yet, are answered as aborted or wait on, as asked;
        ``keep``, the cell whose magic wants another worker, stays under way. Returns the cells that the
        worker had (where it had none and others are aborted, the first of these), and the other requests that
        it had not answered.
        """
        self.held = True
        for lane in self._lanes.values():
            current = lane.current
            if current is not None and current is not keep:
                lane.current = None
                if current.stage is Stage.OPENING:
                    current.attempt += 1
                    current.stage = Stage.QUEUED
                    lane.queue.appendleft(current)
        lost, unanswered = list(self.running.values()), list(self._outstanding.values())
        if abort_waiting:
            if not lost and (told := self._take_first_waiting()) is not None:
                lost.append(told)
            for lane in self._lanes.values():
                self._abort_waiting(lane)
        self.running.clear()
        self._outstanding.clear()
        # A client that asks who is there, while a worker is replaced by the next, is answered by the next.
        for request in [request for request in unanswered if request.msg_type == _WHO]:
            unanswered.remove(request)
            self.add(request)
        for cell in lost:
            cell.stage = Stage.DONE
            self.last_cell = cell
        return lost, unanswered

    def _take_first_waiting(self) -> Cell | None:
        """Take one cell out of the queues: with none running it is where a person learns of the worker's death."""
        for lane in self._lanes.values():
            for waiting in lane.queue:
                if isinstance(waiting, Cell):
                    lane.queue.remove(waiting)
                    self._outbox.status("busy", waiting.request.header)
                    return waiting
        return None

    def _abort_waiting(self, lane: _Lane) -> None:
        cells = [waiting for waiting in lane.queue if isinstance(waiting, Cell)]
        lane.queue = deque(waiting for waiting in lane.queue if not isinstance(waiting, Cell))
        for cell in cells:
            cell.stage = Stage.DONE
            self._outbox.answer(cell.request, ABORTED, ABORTED)

    def _advance(self, key: LaneKey) -> None:
        lane = self._lanes.get(key)
        if lane is None or lane.advancing:
            return  # a cell that is finished at once would otherwise recurse through the whole queue
        lane.advancing = True
        try:
            while lane.queue and not self.held and lane.takes(lane.queue[0]):
                self._start(lane, lane.queue.popleft())
        finally:
            lane.advancing = False
        if not lane.queue and lane.current is None:
            self._lanes.pop(key, None)

    def _start(self, lane: _Lane, head: Request | Cell) -> None:
        if not isinstance(head, Cell):
            self._send(head)
        elif head.aborted:
            head.stage = Stage.DONE
            self._outbox.answer(head.request, ABORTED, ABORTED)
        else:
            lane.current = head
            head.stage = Stage.OPENING
            self._begin(head)

    def _send(self, request: Request) -> None:
        if request.msg_type.endswith("_request"):
            self._outstanding[request.msg_id] = request
            if len(self._outstanding) > _OUTSTANDING:
                self._outstanding.popitem(last=False)
        self._forward(request)


def _key(request: Request) -> LaneKey:
    return (request.channel, request.subshell_id)


def _unreadable(reason: str) -> Json:
    return {"ename": "ProtocolError", "evalue": reason, "traceback": [f"ProtocolError: {reason}"]}
