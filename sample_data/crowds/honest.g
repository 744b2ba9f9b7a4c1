// 500 tasks and 40 honest workers of accuracy about .8, five labels a task; other scripts include this one.
function honest_crowd(n_options)
  create task /tasks -n 500
  set /tasks truth {integers(0, n_options)} options {n_options}
  create desk /desk
  set /desk labels 5
  create neutral /crowd
  create honest /crowd/honest -n 40
  if (n_options == 2)
    set /crowd/honest drift {normal .62 .15}
  else
    set /crowd/honest drift {normal 1.05 .2}
  end
  create recorder /labels
  connect /tasks to /desk
  connect /desk to /crowd/honest
  connect /crowd/honest to /labels
end
