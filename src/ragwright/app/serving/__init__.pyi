from ._job_lines import line_problem as line_problem
from ._serve import require_serving as require_serving, serve_demo as serve_demo
