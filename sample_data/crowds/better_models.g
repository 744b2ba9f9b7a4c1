// Five better models of one mind, right on three of four tasks; four of five answers are the mind's.
include honest.g
honest_crowd 2
set /desk labels 3
create worker /mind
set /mind drift .5 gap .01
create worker /crowd/models -n 5
set /crowd/models drift .5 unasked 1
connect /tasks to /mind
connect /mind to /crowd/models -weight .8
connect /tasks to /crowd/models -delay 10000
connect /crowd/models to /labels
