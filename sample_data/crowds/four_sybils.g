// Four workers repeat one guesser on half of the tasks. The guesser's own labels are not recorded.
include honest.g
honest_crowd 2
create spammer /guesser
set /guesser gap .1
create sybil /crowd/sybils -n 4
connect /tasks to /guesser -weight .5
connect /guesser to /crowd/sybils -delay 1
connect /crowd/sybils to /labels
