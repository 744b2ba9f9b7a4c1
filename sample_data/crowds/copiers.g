// 120 workers, seven labels a task: honest ones, hasty ones, spammers, and copiers who repeat what they overhear.
create task /tasks -n 3000
set /tasks truth {integers 0 2} clarity {uniform .2 1.4}
create desk /desk
set /desk labels 7
create neutral /crowd
create honest /crowd/honest -n 72
set /crowd/honest drift {normal 1.6 .3}
create hasty /crowd/hasty -n 18
create spammer /crowd/spammer -n 18
create copier /crowd/copier -n 12
create recorder /labels
create aggregator /consensus
connect /tasks to /desk
connect /desk to /crowd/#
connect /crowd/# to /labels
connect /crowd/# to /consensus
connect /crowd/honest to /crowd/copier -weight .3 -delay 30
