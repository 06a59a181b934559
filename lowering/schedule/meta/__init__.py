"""``schedule="meta"``: schedules drawn by TVM's MetaSchedule, built and timed in another process.

*Takes* the module of stage `tir`, a budget and the function that gives a default schedule. *Gives* a schedule rule that
replays the fastest trace found. *Refuses*, by `DeviceError`, to measure where there is no device.

Read in this order:

- `rule.py`: what is known of each function, and the rule.
- `process.py`: starts the searching process, survives its death.
- `search.py`: runs in that process: draws, builds, runs and times schedules.

`schedule` may import it, `compiler` the progress of a search.
"""
