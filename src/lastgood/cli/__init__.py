"""The command ``lastgood``: arguments in, one answer out, a typed exit code.

``main`` reads the arguments, asks the verb for its ``Answer`` and lets ``output`` print it;
no verb prints. What a verb needs is imported when it is asked for.
"""
