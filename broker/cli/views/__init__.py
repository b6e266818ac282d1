"""How answers of plain commands look to people: one module for each noun of `broker.api`, in it one function
for each operation that has a command, called as the operation is. It is given the answer, and may take what
was asked, too.

`…_failed`, where it is there, says why the command failed though it was answered; '' = it did not. An
operation without a view is printed plainly.
"""
