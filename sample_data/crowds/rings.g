// Eight rings of three: each ring has a guesser of its own, on a quarter of the tasks.
include honest.g
honest_crowd 2
create neutral /ring0
create spammer /ring0/guesser
create sybil /ring0/members -n 3
connect /ring0/guesser to /ring0/members -delay 1
for (i = 1; i < 8; i = i + 1)
  copy /ring0 to /ring{i}
end
connect /tasks to /ring#/guesser -weight .25
connect /ring#/members to /labels
