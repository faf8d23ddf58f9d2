"""The code of the team of threads, in LLVM's intermediate representation.

The *state* of the team is an array of i64, whose elements in use are in lines of the cache of their own:

- the sequence number, which is odd while a job is open, and increases when a job is opened or closed,
- the number of the next part of the job,
- the number of helpers that are working on the job,
- 1 while a thread owns the team; helpers do not lose patience meanwhile,
- the address of the job.

A *job* is an array of i64: the addresses of the calls and of the first call of each part, the number of parts, the
number of helpers that may take part, the number of bases, two results, its own length, and the bases of each thread.
Jobs that are computed one after another follow each other in memory. The results are in the first one: the number of
parts that the owner of the team has computed, and how many pauses long it has waited for helpers at most.

A *call* is an array of i64: the address of the entry of a kernel, its own length, and the arguments.
"""

from __future__ import annotations

__all__ = ["HEADER_SIZE", "LINE_SIZE", "OWN_PARTS", "SIGNATURES", "STATE_SIZE", "WAITS", "make_team_code"]

#: Elements of a line of the cache; some processors load pairs of lines.
LINE_SIZE = 16
SEQUENCE, NEXT, ACTIVE, OWNER, JOB = (LINE_SIZE * i for i in range(5))
STATE_SIZE = LINE_SIZE * 5
#: Places of the results in a job, and of the bases of the first thread.
OWN_PARTS, WAITS, HEADER_SIZE = 5, 6, 8
#: Pauses of a thread that waits for helpers before it lets other threads, perhaps a helper, have its core: about 200
#: microseconds. A thread that yields on a busy machine gets its core back after milliseconds.
SPIN_COUNT = 8192

SIGNATURES = {"run_jobs": ("ptr", "ptr", "i64", "i64", "ptr"), "serve": ("ptr", "i64", "i64")}

_PAUSES = {"x86_64": "call void @llvm.x86.sse2.pause()", "aarch64": "call void @llvm.aarch64.hint(i32 1)"}
_DECLARATIONS = {"x86_64": "declare void @llvm.x86.sse2.pause()", "aarch64": "declare void @llvm.aarch64.hint(i32)"}

_TEMPLATE = """
; Call the kernels of a part.
define internal void @compute_part(ptr %job, i64 %part, i64 %thread) {
entry:
  %calls = load ptr, ptr %job
  %starts.place = getelementptr i64, ptr %job, i64 1
  %starts = load ptr, ptr %starts.place
  %count.place = getelementptr i64, ptr %job, i64 4
  %count = load i64, ptr %count.place
  %offset = mul i64 %count, %thread
  %first.base = getelementptr i64, ptr %job, i64 8
  %bases = getelementptr i64, ptr %first.base, i64 %offset
  %start.place = getelementptr i64, ptr %starts, i64 %part
  %start = load i64, ptr %start.place
  %stop.place = getelementptr i64, ptr %start.place, i64 1
  %stop = load i64, ptr %stop.place
  br label %head
head:
  %position = phi i64 [ %start, %entry ], [ %following, %body ]
  %is.call = icmp slt i64 %position, %stop
  br i1 %is.call, label %body, label %exit
body:
  %call = getelementptr i64, ptr %calls, i64 %position
  %kernel = load ptr, ptr %call
  %length.place = getelementptr i64, ptr %call, i64 1
  %length = load i64, ptr %length.place
  %arguments = getelementptr i64, ptr %call, i64 2
  call void %kernel(ptr %arguments, ptr %bases)
  %following = add i64 %position, %length
  br label %head
exit:
  ret void
}

; Take parts of the open job until there are none left, and return how many.
define internal i64 @compute_parts(ptr %state, ptr %job, i64 %thread) {
entry:
  %count.place = getelementptr i64, ptr %job, i64 2
  %count = load i64, ptr %count.place
  %next = getelementptr i64, ptr %state, i64 NEXT
  br label %head
head:
  %own = phi i64 [ 0, %entry ], [ %own.next, %body ]
  %part = atomicrmw add ptr %next, i64 1 seq_cst
  %is.part = icmp slt i64 %part, %count
  br i1 %is.part, label %body, label %exit
body:
  call void @compute_part(ptr %job, i64 %part, i64 %thread)
  %own.next = add i64 %own, 1
  br label %head
exit:
  ret i64 %own
}

; Wait a moment for helpers, and from the SPIN_COUNT-th time on let other threads have the core.
define internal void @wait(i64 %count, ptr %yield) {
entry:
  PAUSE
  %is.long = icmp sge i64 %count, SPIN_COUNT
  %has.yield = icmp ne ptr %yield, null
  %yields = and i1 %is.long, %has.yield
  br i1 %yields, label %body, label %exit
body:
  %ignored = call i32 %yield()
  br label %exit
exit:
  ret void
}

; Compute all parts of a job together with the helpers of a team that the thread owns, and return how many pauses long
; it has waited for them.
define internal i64 @share_job(ptr %state, ptr %job, ptr %own.place, ptr %yield) {
entry:
  %next = getelementptr i64, ptr %state, i64 NEXT
  store atomic i64 0, ptr %next seq_cst, align 8
  %job.place = getelementptr i64, ptr %state, i64 JOB
  %job.number = ptrtoint ptr %job to i64
  store atomic i64 %job.number, ptr %job.place seq_cst, align 8
  %sequence = getelementptr i64, ptr %state, i64 SEQUENCE
  %before = load atomic i64, ptr %sequence seq_cst, align 8
  %opened = add i64 %before, 1
  store atomic i64 %opened, ptr %sequence seq_cst, align 8
  %own = call i64 @compute_parts(ptr %state, ptr %job, i64 0)
  %own.before = load i64, ptr %own.place
  %own.after = add i64 %own.before, %own
  store i64 %own.after, ptr %own.place
  %closed = add i64 %before, 2
  store atomic i64 %closed, ptr %sequence seq_cst, align 8
  %active = getelementptr i64, ptr %state, i64 ACTIVE
  br label %join
join:
  %waits = phi i64 [ 0, %entry ], [ %waits.next, %pause ]
  %helpers = load atomic i64, ptr %active seq_cst, align 8
  %is.done = icmp eq i64 %helpers, 0
  br i1 %is.done, label %exit, label %pause
pause:
  call void @wait(i64 %waits, ptr %yield)
  %waits.next = add i64 %waits, 1
  br label %join
exit:
  ret i64 %waits
}

; Compute all parts of a job without helpers.
define internal void @compute_job(ptr %job) {
entry:
  %count.place = getelementptr i64, ptr %job, i64 2
  %count = load i64, ptr %count.place
  br label %head
head:
  %part = phi i64 [ 0, %entry ], [ %part.next, %body ]
  %is.part = icmp slt i64 %part, %count
  br i1 %is.part, label %body, label %exit
body:
  call void @compute_part(ptr %job, i64 %part, i64 0)
  %part.next = add i64 %part, 1
  br label %head
exit:
  ret void
}

; Compute jobs one after another, together with helpers if that is allowed and no other thread owns the team.
define void @run_jobs(ptr %state, ptr %jobs, i64 %count, i64 %allows.helpers, ptr %yield) {
entry:
  %own.place = getelementptr i64, ptr %jobs, i64 5
  %waits.place = getelementptr i64, ptr %jobs, i64 6
  %owner = getelementptr i64, ptr %state, i64 OWNER
  %is.allowed = icmp ne i64 %allows.helpers, 0
  br i1 %is.allowed, label %acquire, label %head
acquire:
  %pair = cmpxchg ptr %owner, i64 0, i64 1 seq_cst seq_cst
  %is.acquired = extractvalue { i64, i1 } %pair, 1
  br label %head
head:
  %is.owner = phi i1 [ false, %entry ], [ %is.acquired, %acquire ], [ %is.owner, %latch ]
  %number = phi i64 [ 0, %entry ], [ 0, %acquire ], [ %number.next, %latch ]
  %job = phi ptr [ %jobs, %entry ], [ %jobs, %acquire ], [ %job.next, %latch ]
  %is.job = icmp slt i64 %number, %count
  br i1 %is.job, label %body, label %exit
body:
  %limit.place = getelementptr i64, ptr %job, i64 3
  %limit = load i64, ptr %limit.place
  %has.helpers = icmp sgt i64 %limit, 0
  %is.shared = and i1 %is.owner, %has.helpers
  br i1 %is.shared, label %share, label %alone
share:
  %waits = call i64 @share_job(ptr %state, ptr %job, ptr %own.place, ptr %yield)
  %waits.before = load i64, ptr %waits.place
  %is.longer = icmp sgt i64 %waits, %waits.before
  %waits.after = select i1 %is.longer, i64 %waits, i64 %waits.before
  store i64 %waits.after, ptr %waits.place
  br label %latch
alone:
  call void @compute_job(ptr %job)
  br label %latch
latch:
  %length.place = getelementptr i64, ptr %job, i64 7
  %length = load i64, ptr %length.place
  %job.next = getelementptr i64, ptr %job, i64 %length
  %number.next = add i64 %number, 1
  br label %head
exit:
  br i1 %is.owner, label %release, label %end
release:
  store atomic i64 0, ptr %owner seq_cst, align 8
  br label %end
end:
  ret void
}

; Help with jobs until the team had no owner for a number of pauses. Threads have numbers from 1 on.
define void @serve(ptr %state, i64 %thread, i64 %patience) {
entry:
  %sequence = getelementptr i64, ptr %state, i64 SEQUENCE
  %active = getelementptr i64, ptr %state, i64 ACTIVE
  %job.place = getelementptr i64, ptr %state, i64 JOB
  %owner = getelementptr i64, ptr %state, i64 OWNER
  br label %head
head:
  %pauses = phi i64 [ 0, %entry ], [ %pauses.next, %pause ], [ 0, %leave ]
  %done = phi i64 [ -1, %entry ], [ %done, %pause ], [ %current, %leave ]
  %current = load atomic i64, ptr %sequence seq_cst, align 8
  %low = and i64 %current, 1
  %is.open = icmp ne i64 %low, 0
  %is.new = icmp ne i64 %current, %done
  %is.job = and i1 %is.open, %is.new
  br i1 %is.job, label %enter, label %idle
enter:
  ; The job stays as long as a helper is counted that has seen it open.
  %ignored = atomicrmw add ptr %active, i64 1 seq_cst
  %again = load atomic i64, ptr %sequence seq_cst, align 8
  %is.same = icmp eq i64 %again, %current
  br i1 %is.same, label %check, label %leave
check:
  %job.number = load atomic i64, ptr %job.place seq_cst, align 8
  %job = inttoptr i64 %job.number to ptr
  %limit.place = getelementptr i64, ptr %job, i64 3
  %limit = load i64, ptr %limit.place
  %is.member = icmp sle i64 %thread, %limit
  br i1 %is.member, label %work, label %leave
work:
  %own = call i64 @compute_parts(ptr %state, ptr %job, i64 %thread)
  br label %leave
leave:
  %ignored.too = atomicrmw sub ptr %active, i64 1 seq_cst
  br label %head
idle:
  %is.patient = icmp slt i64 %pauses, %patience
  br i1 %is.patient, label %pause, label %exit
pause:
  PAUSE
  %owned = load atomic i64, ptr %owner monotonic, align 8
  %is.free = icmp eq i64 %owned, 0
  %step = zext i1 %is.free to i64
  %pauses.next = add i64 %pauses, %step
  br label %head
exit:
  ret void
}
"""


def make_team_code(triple: str) -> str:
    """Return the module for a platform."""
    processor = triple.split("-")[0].replace("arm64", "aarch64")
    places = {"SEQUENCE": SEQUENCE, "NEXT": NEXT, "ACTIVE": ACTIVE, "OWNER": OWNER, "JOB": JOB}
    words = {**places, "SPIN_COUNT": SPIN_COUNT}
    text = _TEMPLATE.replace("PAUSE", _PAUSES.get(processor, ""))
    for word, value in words.items():
        text = text.replace(f"i64 {word}", f"i64 {value}").replace(f"%count, {word}", f"%count, {value}")
    return text + _DECLARATIONS.get(processor, "")
