"""Objects for checks in the process of the reader's function: its arguments, and observers of its calls.

When a submission is graded, that is a sandbox, and of the checks nothing but this package, `findings` and
the file above can be read there: a check's slow definition is a solution. So nothing here says what is right,
and no check is registered here. What a function of this package says of a submission, its process says: a
student can make it say anything. Where it matters, the check lends an object of its own and looks at that.
"""
