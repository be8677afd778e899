from ._rehearse import rehearsal_code as rehearsal_code, show_rehearsal as show_rehearsal
