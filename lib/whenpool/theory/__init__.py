"""What can be said of recurrences and poolings without training them (thesis §2.1).

The thesis refers to Chowdhury (2020) for its theory; what stands here was derived for this book.
Modules are imported by their own names: ``gates``, ``moments``, ``shrinkage`` and ``comparison`` for
how the gradient vanishes; the others for what can be represented.
"""
