// Eight colluders answer every task as honest workers do, but for a tenth of the tasks, where they lie alike.
include honest.g
honest_crowd 2
create worker /script
set /script drift -20 gap .01
create honest /crowd/colluders -n 8
set /crowd/colluders drift {normal .62 .15} unasked 1
connect /tasks to /script -weight .1
connect /script to /crowd/colluders
connect /tasks to /crowd/colluders -delay 1000
connect /crowd/colluders to /labels
