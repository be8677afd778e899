from ._job_lines import line_problem as line_problem
