"""Loss of power: four persistence models, and every disk that they permit.

``rules`` says what each model promises, ``tearing`` what may become of one write, ``pending``
and ``cache`` follow what a job asked for, ``choices`` lists the disks of one crash point: all of
that is pure. ``passage`` is a stretch of calls between two durable disks, ``variants`` the ways
in which one comes about, ``loss`` loses power at each point of it, ``case`` builds one such state
again.
"""
