"""irrun: runs OpenVINO IR files in pure Python on NumPy, and shows every value inside."""
