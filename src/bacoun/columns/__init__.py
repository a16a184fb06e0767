"""Files and DataFrames -> columns, each read once and described once. No torch in this room.

Tables come from files (`reading`) or other libraries (`frames`). `type_inference` finds what a
column holds, `cells` reads it, `column` and `profile` describe it in training, and `checks` say
what is different about a new table. `writing` writes tables to files.
"""
