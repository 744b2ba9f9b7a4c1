// Three threes lie together on a tenth of the tasks and tell the truth on three times as many.
include honest.g
honest_crowd 2
create neutral /three0
create worker /three0/liar
set /three0/liar drift -20 gap .01
create worker /three0/teller
set /three0/teller drift 20 gap .01
create sybil /three0/members -n 3
connect /three0/liar to /three0/members
connect /three0/teller to /three0/members -delay 1000
copy /three0 to /three1
copy /three0 to /three2
connect /tasks to /three#/liar -weight .1
connect /tasks to /three#/teller -weight .33
connect /three#/members to /labels
