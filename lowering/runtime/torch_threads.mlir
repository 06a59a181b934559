// What starts a parallel loop of compiled code on the threads of an OpenMP runtime. The loop comes as a function that does
// one of so many tasks. `torch_threads.py` says what this is for.

// What to do: the function and its data, what it is told of the group (nothing to synchronise by, how many tasks), the
// error of the first task that failed, whether one did, how many tasks are a thread's own, how many of these are taken,
// and when the caller's thread began and when it had no more to do.
!job = !llvm.struct<(ptr, ptr, struct<(ptr, i32)>, ptr, i32, i32, ptr, i64, i64)>

// How many threads are expected, how many are asked for (0 is as many as usual), how many tasks a loop is, and whether
// there may be no threads but the caller.
llvm.mlir.global internal @threads(1 : i32) : i32
llvm.mlir.global internal @team(0 : i32) : i32
llvm.mlir.global internal @tasks(1 : i32) : i32
llvm.mlir.global internal @alone(0 : i32) : i32

// Until when loops run on the caller's thread alone, in nanoseconds.
llvm.mlir.global internal @until(0 : i64) : i64
// How many times as long as it waited in vain.
llvm.mlir.global internal @patience(1 : i64) : i64

// The functions of other libraries that this code calls, by address, so that it can be linked without them:
// GOMP_parallel, omp_get_thread_num, TVMFFIErrorMoveFromRaised, TVMFFIErrorSetRaised, TVMFFIObjectDecRef.
llvm.mlir.global internal @functions() : !llvm.array<5 x ptr> {
  %null = llvm.mlir.zero : !llvm.array<5 x ptr>
  llvm.return %null : !llvm.array<5 x ptr>
}

llvm.func @clock_gettime(i32, !llvm.ptr) -> i32

llvm.func @use(%number: i32, %function: !llvm.ptr) {
  %functions = llvm.mlir.addressof @functions : !llvm.ptr
  %place = llvm.getelementptr %functions[%number] : (!llvm.ptr, i32) -> !llvm.ptr, !llvm.ptr
  llvm.store %function, %place : !llvm.ptr, !llvm.ptr
  llvm.return
}

llvm.func @set(%threads: i32, %team: i32, %tasks: i32, %alone: i32) {
  %threads_place = llvm.mlir.addressof @threads : !llvm.ptr
  llvm.store %threads, %threads_place : i32, !llvm.ptr
  %team_place = llvm.mlir.addressof @team : !llvm.ptr
  llvm.store %team, %team_place : i32, !llvm.ptr
  %tasks_place = llvm.mlir.addressof @tasks : !llvm.ptr
  llvm.store %tasks, %tasks_place : i32, !llvm.ptr
  %alone_place = llvm.mlir.addressof @alone : !llvm.ptr
  llvm.store %alone, %alone_place : i32, !llvm.ptr
  llvm.return
}

// The address of what modules call.
llvm.func @address() -> !llvm.ptr {
  %launch = llvm.mlir.addressof @launch : !llvm.ptr
  llvm.return %launch : !llvm.ptr
}

// Nanoseconds of the clock that nobody sets.
llvm.func internal @now() -> i64 {
  %one = llvm.mlir.constant(1 : i32) : i32
  %second = llvm.mlir.constant(1000000000 : i64) : i64
  %time = llvm.alloca %one x !llvm.struct<(i64, i64)> : (i32) -> !llvm.ptr
  %status = llvm.call @clock_gettime(%one, %time) : (i32, !llvm.ptr) -> i32
  %seconds = llvm.load %time : !llvm.ptr -> i64
  %rest_place = llvm.getelementptr %time[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i64, i64)>
  %rest = llvm.load %rest_place : !llvm.ptr -> i64
  %whole = llvm.mul %seconds, %second : i64
  %nanoseconds = llvm.add %whole, %rest : i64
  llvm.return %nanoseconds : i64
}

// One thread's part: its own tasks, then those of the others that nobody has taken.
llvm.func internal @work(%job: !llvm.ptr) {
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %line = llvm.mlir.constant(16 : i32) : i32
  %threads_place = llvm.mlir.addressof @threads : !llvm.ptr
  %threads = llvm.load %threads_place : !llvm.ptr -> i32
  %function_place = llvm.getelementptr %job[0, 0] : (!llvm.ptr) -> !llvm.ptr, !job
  %function = llvm.load %function_place : !llvm.ptr -> !llvm.ptr
  %data_place = llvm.getelementptr %job[0, 1] : (!llvm.ptr) -> !llvm.ptr, !job
  %data = llvm.load %data_place : !llvm.ptr -> !llvm.ptr
  %group = llvm.getelementptr %job[0, 2] : (!llvm.ptr) -> !llvm.ptr, !job
  %count_place = llvm.getelementptr %job[0, 2, 1] : (!llvm.ptr) -> !llvm.ptr, !job
  %count = llvm.load %count_place : !llvm.ptr -> i32
  %own_place = llvm.getelementptr %job[0, 5] : (!llvm.ptr) -> !llvm.ptr, !job
  %own = llvm.load %own_place : !llvm.ptr -> i32
  %taken_place = llvm.getelementptr %job[0, 6] : (!llvm.ptr) -> !llvm.ptr, !job
  %taken = llvm.load %taken_place : !llvm.ptr -> !llvm.ptr
  %functions = llvm.mlir.addressof @functions : !llvm.ptr
  %thread_number_place = llvm.getelementptr %functions[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<5 x ptr>
  %thread_number = llvm.load %thread_number_place : !llvm.ptr -> !llvm.ptr
  %me = llvm.call %thread_number() : !llvm.ptr, () -> i32
  %is_caller = llvm.icmp "eq" %me, %zero : i32
  llvm.cond_br %is_caller, ^begin, ^whose(%zero : i32)
^begin:
  %begun = llvm.call @now() : () -> i64
  %begun_place = llvm.getelementptr %job[0, 7] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %begun, %begun_place : i64, !llvm.ptr
  llvm.br ^whose(%zero : i32)
^whose(%others: i32):
  %is_over = llvm.icmp "uge" %others, %threads : i32
  llvm.cond_br %is_over, ^end, ^start
^start:
  %at = llvm.add %me, %others : i32
  %owner = llvm.urem %at, %threads : i32
  %first = llvm.mul %owner, %own : i32
  %slot = llvm.mul %owner, %line : i32
  %counter = llvm.getelementptr %taken[%slot] : (!llvm.ptr, i32) -> !llvm.ptr, i32
  %following = llvm.add %others, %one : i32
  llvm.br ^take
^take:
  %next = llvm.atomicrmw add %counter, %one monotonic : !llvm.ptr, i32
  %task = llvm.add %first, %next : i32
  %is_owners = llvm.icmp "ult" %next, %own : i32
  %is_task = llvm.icmp "ult" %task, %count : i32
  %is_there = llvm.and %is_owners, %is_task : i1
  llvm.cond_br %is_there, ^run, ^whose(%following : i32)
^run:
  %result = llvm.call %function(%task, %group, %data) : !llvm.ptr, (i32, !llvm.ptr, !llvm.ptr) -> i32
  %is_good = llvm.icmp "eq" %result, %zero : i32
  llvm.cond_br %is_good, ^take, ^failed
^failed:
  %failed_place = llvm.getelementptr %job[0, 4] : (!llvm.ptr) -> !llvm.ptr, !job
  %before = llvm.atomicrmw xchg %failed_place, %one monotonic : !llvm.ptr, i32
  %is_first = llvm.icmp "eq" %before, %zero : i32
  llvm.cond_br %is_first, ^keep, ^take
^keep:
  // Errors belong to a thread: the caller gets this one when all have come together.
  %error_place = llvm.getelementptr %job[0, 3] : (!llvm.ptr) -> !llvm.ptr, !job
  %move_raised_place = llvm.getelementptr %functions[0, 2] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<5 x ptr>
  %move_raised = llvm.load %move_raised_place : !llvm.ptr -> !llvm.ptr
  llvm.call %move_raised(%error_place) : !llvm.ptr, (!llvm.ptr) -> ()
  llvm.br ^take
^end:
  llvm.cond_br %is_caller, ^note, ^leave
^note:
  %ready = llvm.call @now() : () -> i64
  %ready_place = llvm.getelementptr %job[0, 8] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %ready, %ready_place : i64, !llvm.ptr
  llvm.br ^leave
^leave:
  llvm.return
}

// Where the caller waits for the others' threads for longer than it works, somebody else has their CPUs: it does without
// them for as long as it waited, for twice as long the next time in a row, and so on. The longest is a quarter of a second.
llvm.func internal @judge(%start: i64, %job: !llvm.ptr) {
  %one = llvm.mlir.constant(1 : i64) : i64
  %little = llvm.mlir.constant(500000 : i64) : i64
  %most = llvm.mlir.constant(16 : i64) : i64
  %longest = llvm.mlir.constant(250000000 : i64) : i64
  %patience_place = llvm.mlir.addressof @patience : !llvm.ptr
  %begun_place = llvm.getelementptr %job[0, 7] : (!llvm.ptr) -> !llvm.ptr, !job
  %begun = llvm.load %begun_place : !llvm.ptr -> i64
  %ready_place = llvm.getelementptr %job[0, 8] : (!llvm.ptr) -> !llvm.ptr, !job
  %ready = llvm.load %ready_place : !llvm.ptr -> i64
  %end = llvm.call @now() : () -> i64
  %all = llvm.sub %end, %start : i64
  %worked = llvm.sub %ready, %begun : i64
  %waited = llvm.sub %all, %worked : i64
  %is_long = llvm.icmp "sgt" %waited, %little : i64
  %is_longer = llvm.icmp "sgt" %waited, %worked : i64
  %is_late = llvm.and %is_long, %is_longer : i1
  llvm.cond_br %is_late, ^avoid, ^trust
^avoid:
  %factor = llvm.load %patience_place atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %product = llvm.mul %waited, %factor : i64
  %span = llvm.intr.smin(%product, %longest) : (i64, i64) -> i64
  %until = llvm.add %end, %span : i64
  %until_place = llvm.mlir.addressof @until : !llvm.ptr
  llvm.store %until, %until_place atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  %twice = llvm.shl %factor, %one : i64
  %next = llvm.intr.smin(%twice, %most) : (i64, i64) -> i64
  llvm.store %next, %patience_place atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  llvm.br ^leave
^trust:
  llvm.store %one, %patience_place atomic monotonic {alignment = 8 : i64} : i64, !llvm.ptr
  llvm.br ^leave
^leave:
  llvm.return
}

// Zero wanted tasks are as many as usual.
llvm.func @launch(%function: !llvm.ptr, %data: !llvm.ptr, %wanted: i32) -> i32 {
  %zero = llvm.mlir.constant(0 : i32) : i32
  %one = llvm.mlir.constant(1 : i32) : i32
  %minus_one = llvm.mlir.constant(-1 : i32) : i32
  %null = llvm.mlir.zero : !llvm.ptr
  %byte = llvm.mlir.constant(0 : i8) : i8
  %line = llvm.mlir.constant(16 : i32) : i32
  %line_bytes = llvm.mlir.constant(64 : i64) : i64
  %threads_place = llvm.mlir.addressof @threads : !llvm.ptr
  %threads = llvm.load %threads_place : !llvm.ptr -> i32
  %tasks_place = llvm.mlir.addressof @tasks : !llvm.ptr
  %tasks = llvm.load %tasks_place : !llvm.ptr -> i32
  %is_usual = llvm.icmp "eq" %wanted, %zero : i32
  %count = llvm.select %is_usual, %tasks, %wanted : i1, i32
  %above = llvm.add %count, %threads : i32
  %numerator = llvm.sub %above, %one : i32
  %own = llvm.udiv %numerator, %threads : i32
  // One counter per thread, each with a line of the cache to itself.
  %length = llvm.mul %threads, %line : i32
  %taken = llvm.alloca %length x i32 {alignment = 64 : i64} : (i32) -> !llvm.ptr
  %lines = llvm.zext %threads : i32 to i64
  %bytes = llvm.mul %lines, %line_bytes : i64
  "llvm.intr.memset"(%taken, %byte, %bytes) <{isVolatile = false}> : (!llvm.ptr, i8, i64) -> ()
  %job = llvm.alloca %one x !job {alignment = 64 : i64} : (i32) -> !llvm.ptr
  %function_place = llvm.getelementptr %job[0, 0] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %function, %function_place : !llvm.ptr, !llvm.ptr
  %data_place = llvm.getelementptr %job[0, 1] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %data, %data_place : !llvm.ptr, !llvm.ptr
  %barrier_place = llvm.getelementptr %job[0, 2, 0] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %null, %barrier_place : !llvm.ptr, !llvm.ptr
  %count_place = llvm.getelementptr %job[0, 2, 1] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %count, %count_place : i32, !llvm.ptr
  %error_place = llvm.getelementptr %job[0, 3] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %null, %error_place : !llvm.ptr, !llvm.ptr
  %failed_place = llvm.getelementptr %job[0, 4] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %zero, %failed_place : i32, !llvm.ptr
  %own_place = llvm.getelementptr %job[0, 5] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %own, %own_place : i32, !llvm.ptr
  %taken_place = llvm.getelementptr %job[0, 6] : (!llvm.ptr) -> !llvm.ptr, !job
  llvm.store %taken, %taken_place : !llvm.ptr, !llvm.ptr
  %functions = llvm.mlir.addressof @functions : !llvm.ptr
  %alone_place = llvm.mlir.addressof @alone : !llvm.ptr
  %alone = llvm.load %alone_place : !llvm.ptr -> i32
  %is_alone = llvm.icmp "ne" %alone, %zero : i32
  llvm.cond_br %is_alone, ^by_itself, ^look
^look:
  %start = llvm.call @now() : () -> i64
  %until_place = llvm.mlir.addressof @until : !llvm.ptr
  %until = llvm.load %until_place atomic monotonic {alignment = 8 : i64} : !llvm.ptr -> i64
  %is_crowded = llvm.icmp "slt" %start, %until : i64
  llvm.cond_br %is_crowded, ^by_itself, ^together
^by_itself:
  llvm.call @work(%job) : (!llvm.ptr) -> ()
  llvm.br ^done
^together:
  %work = llvm.mlir.addressof @work : !llvm.ptr
  %team_place = llvm.mlir.addressof @team : !llvm.ptr
  %team = llvm.load %team_place : !llvm.ptr -> i32
  %parallel_place = llvm.getelementptr %functions[0, 0] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<5 x ptr>
  %parallel = llvm.load %parallel_place : !llvm.ptr -> !llvm.ptr
  llvm.call %parallel(%work, %job, %team, %zero) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i32, i32) -> ()
  llvm.call @judge(%start, %job) : (i64, !llvm.ptr) -> ()
  llvm.br ^done
^done:
  %failed = llvm.load %failed_place : !llvm.ptr -> i32
  %is_good = llvm.icmp "eq" %failed, %zero : i32
  llvm.cond_br %is_good, ^good, ^bad
^good:
  llvm.return %zero : i32
^bad:
  %error = llvm.load %error_place : !llvm.ptr -> !llvm.ptr
  %is_nameless = llvm.icmp "eq" %error, %null : !llvm.ptr
  llvm.cond_br %is_nameless, ^give_up, ^raise
^raise:
  %set_raised_place = llvm.getelementptr %functions[0, 3] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<5 x ptr>
  %set_raised = llvm.load %set_raised_place : !llvm.ptr -> !llvm.ptr
  llvm.call %set_raised(%error) : !llvm.ptr, (!llvm.ptr) -> ()
  %release_place = llvm.getelementptr %functions[0, 4] : (!llvm.ptr) -> !llvm.ptr, !llvm.array<5 x ptr>
  %release = llvm.load %release_place : !llvm.ptr -> !llvm.ptr
  %left = llvm.call %release(%error) : !llvm.ptr, (!llvm.ptr) -> i32
  llvm.br ^give_up
^give_up:
  llvm.return %minus_one : i32
}
