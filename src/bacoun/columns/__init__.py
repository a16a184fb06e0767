"""Files and DataFrames -> columns that are read and described once. No torch in this room."""
