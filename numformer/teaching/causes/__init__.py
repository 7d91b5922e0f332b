"""Why a function is wrong: suspects that give the student's numbers, and the one that is named."""
