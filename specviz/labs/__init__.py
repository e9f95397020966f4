"""Small experiments that run in seconds: models of NumPy's size, rules that can be broken on purpose.

Nothing here decodes for anybody. The right rule of acceptance is not written again: the lab of
exactness draws through `engine.verify` itself, and formulas are `theory`'s.
"""
