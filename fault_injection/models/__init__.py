"""Persistence models: which disks may be left where power is lost.

``rules`` says what each model promises, ``tearing`` what may become of one write, ``pending`` and
``cache`` follow what a job asked for, ``choices`` lists the disks of one crash point. All of it is
pure: from what was durable, the operations in their order and a crash point to the disks.
"""
