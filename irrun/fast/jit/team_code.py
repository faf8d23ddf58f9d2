"""The code of the team of threads.

The *state* of the team is an array of i64. Each element in use has its own cache line:

- the sequence number, which is odd while a job is open, and increases when a job is opened or closed,
- the number of parts of the job that threads have taken or tried to take,
- the number of helpers that are working on the job,
- 1 while a thread owns the team; helpers then keep waiting,
- the address of the job,
- the numbers of parts that threads with even and with odd numbers have taken. The former take the first parts, the
  latter the last ones, so that a thread mostly reads the part of a value that it has computed, from its own cache.

A *job* is an array of i64: the addresses of the calls and of the first call of each part, the number of parts, the
number of helpers that may take part, the number of bases, two results, its own length, and the bases of each thread.
Jobs that are computed one after another are contiguous in memory. The first job holds the results: the number of
parts that the owner of the team has computed, and the longest time that it waited for helpers, in pauses.

A *call* is an array of i64: the address of the entry of a kernel, its own length, and the arguments.
"""

from __future__ import annotations

from irrun.fast.jit.code import Function, Operand, Value, make_module

__all__ = ["HEADER_SIZE", "LAST_WAITS", "LINE_SIZE", "OWN_PARTS", "SIGNATURES", "STATE_SIZE", "WAITS", "make_team_code"]

#: Elements per cache line, doubled because some processors load pairs of lines.
LINE_SIZE = 16
SEQUENCE, TAKEN, ACTIVE, OWNER, JOB, FIRST, LAST = (LINE_SIZE * i for i in range(7))
STATE_SIZE = LINE_SIZE * 7
#: Positions in a job, and of the bases of the first thread.
CALLS, STARTS, PART_COUNT, HELPER_COUNT, BASE_COUNT, OWN_PARTS, WAITS, LENGTH, HEADER_SIZE = range(9)
#: Number of pauses before a waiting thread yields its core to other threads, perhaps a helper: about 200
#: microseconds. A thread that yields on a busy machine gets its core back after milliseconds.
SPIN_COUNT = 8192
#: Number of pauses for which a helper still waits after it has announced that it sleeps. A thread may open a job just
#: after it has read that the helper is awake.
LAST_WAITS = 1000

SIGNATURES = {"run_jobs": ("ptr", "ptr", "i64", "i64", "ptr"), "serve": ("ptr", "ptr", "i64", "i64")}

#: Pause instructions by processor, which yield to the core's other hardware thread: declarations and calls.
_PAUSES = {
    "x86_64": ("@llvm.x86.sse2.pause()", "@llvm.x86.sse2.pause()"),
    "aarch64": ("@llvm.aarch64.hint(i32)", "@llvm.aarch64.hint(i32 1)"),
}


def make_team_code(triple: str) -> str:
    """Return the module for a platform."""
    processor = triple.split("-")[0].replace("arm64", "aarch64")
    return make_module([_RunJobs("run_jobs", processor).write(), _Serve("serve", processor).write()])


class _TeamFunction(Function):
    """A function that computes jobs.

    Args:
        name: Its name.
        processor: The processor, as LLVM spells it.
    """

    names: tuple[str, ...]

    def __init__(self, name: str, processor: str) -> None:
        super().__init__(name, tuple(zip(self.names, SIGNATURES[name], strict=True)), lanes=4)
        self.processor = processor
        self.state = self.parameters["state"]

    def read(self, array: Value, place: int, type_: str = "i64") -> Value:
        """Return an element of a job or a call."""
        return self.load(self.offset(array, place, "i64"), type_)

    def get_state(self, place: int, ordering: str = "seq_cst") -> Value:
        """Return an element of the state."""
        pointer = self.offset(self.state, place, "i64")
        return self.emit("i64", f"load atomic i64, ptr {pointer} {ordering}, align 8")

    def set_state(self, place: int, value: Operand) -> None:
        """Change an element of the state."""
        pointer = self.offset(self.state, place, "i64")
        self.append(f"store atomic i64 {self.coerce(value, 'i64')}, ptr {pointer} seq_cst, align 8")

    def add_to_state(self, place: Operand, value: int) -> Value:
        """Add to an element of the state, and return what it was before."""
        pointer = self.offset(self.state, place, "i64")
        return self.emit("i64", f"atomicrmw add ptr {pointer}, i64 {value} seq_cst")

    def pause(self) -> None:
        """Pause, so that the other hardware thread of the core can work."""
        if self.processor in _PAUSES:
            declaration, call = _PAUSES[self.processor]
            self.declarations.add(f"void {declaration}")
            self.append(f"call void {call}")

    def compute_part(self, job: Value, part: Value, thread: Operand) -> None:
        """Call the kernels of a part."""
        calls, starts = self.read(job, CALLS, "ptr"), self.read(job, STARTS, "ptr")
        bases = self.offset(job, self.read(job, BASE_COUNT) * thread + HEADER_SIZE, "i64")
        start = self.offset(starts, part, "i64")
        position, stop = self.variable("i64", self.read(start, 0)), self.read(start, 1)
        with self.repeat(lambda: self.compare("slt", position.get(), stop)):
            call = self.offset(calls, position.get(), "i64")
            self.append(f"call void {self.read(call, 0, 'ptr')}(ptr {self.offset(call, 2, 'i64')}, ptr {bases})")
            position.add(self.read(call, 1))

    def compute_parts(self, job: Value, thread: Operand) -> Value:
        """Take parts of the open job until there are none left, and return how many."""
        count, own = self.read(job, PART_COUNT), self.variable("i64", 0)
        is_odd = self.compare("ne", self.coerce(thread, "i64") & 1, 0)
        side = self.select(is_odd, self.integer(LAST), self.integer(FIRST))
        with self.repeat(lambda: self.compare("slt", self.add_to_state(TAKEN, 1), count)):
            number = self.add_to_state(side, 1)
            self.compute_part(job, self.select(is_odd, count - 1 - number, number), thread)
            own.add(1)
        return own.get()


class _RunJobs(_TeamFunction):
    """Computes jobs one after another, with helpers if they are allowed and no other thread owns the team."""

    names = ("state", "jobs", "count", "allows_helpers", "yield")

    def write(self) -> Function:
        """Write the function."""
        _, jobs, count, allows_helpers, _ = self.parameters.values()
        is_owner, job = self.variable("i1", 0), self.variable("ptr", jobs)
        with self.when(self.compare("ne", allows_helpers, 0)):
            owner = self.offset(self.state, OWNER, "i64")
            pair = self.emit("{ i64, i1 }", f"cmpxchg ptr {owner}, i64 0, i64 1 seq_cst seq_cst")
            is_owner.set(self.emit("i1", f"extractvalue {pair.type} {pair}, 1"))
        with self.loop(0, count):
            current = job.get()
            has_helpers = self.compare("sgt", self.read(current, HELPER_COUNT), 0)
            self.choose(
                is_owner.get() & has_helpers, lambda: self.share_job(current), lambda: self.compute_job(current)
            )
            job.set(self.offset(current, self.read(current, LENGTH), "i64"))
        with self.when(is_owner.get()):
            self.set_state(OWNER, 0)
        return self

    def share_job(self, job: Value) -> None:
        """Compute all parts of a job together with the helpers, and wait for them."""
        for place in (TAKEN, FIRST, LAST):
            self.set_state(place, 0)
        self.set_state(JOB, self.convert("ptrtoint", job, "i64"))
        before = self.get_state(SEQUENCE)
        self.set_state(SEQUENCE, before + 1)
        own = self.compute_parts(job, 0)
        jobs = self.parameters["jobs"]
        self.store(self.read(jobs, OWN_PARTS) + own, self.offset(jobs, OWN_PARTS, "i64"))
        self.set_state(SEQUENCE, before + 2)
        waits = self.variable("i64", 0)
        with self.repeat(lambda: self.compare("ne", self.get_state(ACTIVE), 0)):
            self.wait(waits.get())
            waits.add(1)
        self.store(self.max(waits.get(), self.read(jobs, WAITS)), self.offset(jobs, WAITS, "i64"))

    def wait(self, count: Value) -> None:
        """Wait a moment for helpers; from the SPIN_COUNT-th time on, yield the core to other threads."""
        self.pause()
        give_way = self.parameters["yield"]
        is_long = self.compare("sge", count, SPIN_COUNT)
        with self.when(is_long & self.compare("ne", give_way, Value(self, "ptr", "null"))):
            self.emit("i32", f"call i32 {give_way}()")

    def compute_job(self, job: Value) -> None:
        """Compute all parts of a job without helpers."""
        with self.loop(0, self.read(job, PART_COUNT)) as part:
            self.compute_part(job, part, 0)


class _Serve(_TeamFunction):
    """Helps with jobs until the team has had no owner for a number of pauses. Threads are numbered from 1.

    Before it returns, it sets `sleeps` to 1. The interpreter would learn too late that a helper sleeps, since the
    helper needs its lock to say so.
    """

    names = ("state", "sleeps", "thread", "patience")

    def write(self) -> Function:
        """Write the function."""
        patience = self.parameters["patience"]
        pauses, done, current = self.variable("i64", 0), self.variable("i64", -1), self.variable("i64", 0)
        has_job = self.variable("i1", 0)

        def goes_on() -> Value:
            current.set(self.get_state(SEQUENCE))
            is_open = self.compare("ne", current.get() & 1, 0)
            has_job.set(is_open & self.compare("ne", current.get(), done.get()))
            return has_job.get() | self.compare("slt", pauses.get(), patience + LAST_WAITS)

        def help_with_job() -> None:
            self.help(current.get())
            done.set(current.get())
            with self.when(self.compare("sge", pauses.get(), patience)):
                self.set_sleeps(0)
            pauses.set(0)

        def wait() -> None:
            self.pause()
            is_free = self.compare("eq", self.get_state(OWNER, "monotonic"), 0)
            pauses.add(self.convert("zext", is_free, "i64"))
            with self.when(is_free & self.compare("eq", pauses.get(), patience)):
                self.set_sleeps(1)

        with self.repeat(goes_on):
            self.choose(has_job.get(), help_with_job, wait)
        return self

    def set_sleeps(self, value: int) -> None:
        """Announce whether the helper sleeps."""
        self.append(f"store atomic i64 {value}, ptr {self.parameters['sleeps']} seq_cst, align 8")

    def help(self, sequence: Value) -> None:
        """Compute parts of the job with a sequence number, unless it is closed or has enough helpers."""
        thread = self.parameters["thread"]
        # The job stays in memory while it counts a helper that has seen it open.
        self.add_to_state(ACTIVE, 1)
        with self.when(self.compare("eq", self.get_state(SEQUENCE), sequence)):
            job = self.convert("inttoptr", self.get_state(JOB), "ptr")
            with self.when(self.compare("sle", thread, self.read(job, HELPER_COUNT))):
                self.compute_parts(job, thread)
        self.add_to_state(ACTIVE, -1)
