"""What happens in a tale: four plots, each with its questions, its conclusions and its summary.

A plot tells three or four sentences about a first person `a`, a second `b`, a third `c`, and a main
thing `x`. Whenever a pronoun could mean two people, the reason after "because" tells which.
"""

from typing import NamedTuple

from numformer.data.world.cast import COUNTED, HOLDERS, LOCATIONS, THINGS, Thing

ENTAILMENT, CONTRADICTION, NEUTRAL = "entailment", "contradiction", "neutral"


class Outcome(NamedTuple):
    """What a plot knows in addition to the sentences it told.

    Parameters
    ----------
    questions : list of (str, dict, (int, int), str)
        Template of the question, its cast, the tokens of the answer and their kind.
    claims : list of ((int, int), str, dict, str)
        Sentences of the premise (first, past the last), template of the hypothesis, its cast, and
        whether it follows.
    summary : (str, dict)
        Template and cast.
    """

    questions: list
    claims: list
    summary: tuple


def judged(premise, template, cases):
    """Claims of one form: the casts of `cases` are (cast, label)."""
    return [(premise, template, cast, label) for cast, label in cases]


def another(integers, items, *taken):
    """A thing whose noun is none of those taken, whatever their adjectives are."""
    nouns = [thing.noun for thing in taken]
    return integers.choice([thing for thing in items if thing.noun not in nouns])


def count(tell, integers, a, b, c, x, first):
    """a gives some of the things away and finds others."""
    n, k, m = 5 + integers.below(8), 2 + integers.below(3), 2 + integers.below(4)
    r, y = n - k + m, another(integers, COUNTED, x)
    had = tell(integers.choice((
        "{a} had/VERB {n} {x.bare} in {a.his} bag .",
        "there/PRON were {n} {x.bare} in the basket of {a} .",
        "{a} carried {n} {x.bare} home .")), a=a, n=n, x=x)
    gave = tell(integers.choice((
        "{a.again} gave {k} of them to {b} because {b.he} was hungry .",
        "then {a.again} gave {k} of them to {b} because {a.he} had/VERB too many .",
        "{b} asked for some and got {k} of them from {a} because {b.he} had/VERB no food .")),
        a=a, b=b, k=k)
    tell(integers.choice((
        "later {a} found {m} more {x.bare} under a tree .",
        "{c} came and sent {a} {m} more {x.bare} .",
        "then {a} bought {m} more in a shop .")), a=a, c=c, m=m, x=x)
    ends = tell(integers.choice((
        "so {a.again} had/VERB {r} {x.bare} in the end .",
        "so there/PRON were {r} {x.bare} in the bag now .",
        "in the evening {a} counted {r} {x.bare} .")), a=a, r=r, x=x)
    questions = [
        ("how many {x.bare} did {a} have first ?", dict(x=x, a=a), had["n"], "NUMBER"),
        ("how many {x.bare} did {b} get ?", dict(x=x, b=b), gave["k"], "NUMBER"),
        ("how many {x.bare} did {a} have in the end ?", dict(x=x, a=a), ends["r"], "NUMBER"),
        ("who got {x.bare} from {a} ?", dict(x=x, a=a), gave["b"], "PERSON"),
        ("what did {a} give to {b} ?", dict(a=a, b=b), had["x"], "THING")]
    two = (first, first + 2)
    claims = judged(two, "{a} gave {x.bare} to {b} .", [
        (dict(a=a, b=b, x=x), ENTAILMENT), (dict(a=b, b=a, x=x), CONTRADICTION),
        (dict(a=a, b=b, x=y), NEUTRAL)])
    claims += judged(two, "{p} had/VERB {n} {x.bare} first .", [
        (dict(p=a, n=n, x=x), ENTAILMENT), (dict(p=a, n=n + 1, x=x), CONTRADICTION),
        (dict(p=b, n=n, x=y), NEUTRAL)])
    claims += judged(two, "then {p} had/VERB {n} {x.bare} .", [
        (dict(p=a, n=n - k, x=x), ENTAILMENT), (dict(p=a, n=n, x=x), CONTRADICTION),
        (dict(p=a, n=n - k, x=y), NEUTRAL)])
    return Outcome(questions, claims, (
        "{a} gave {b} some {x.bare} and had/VERB {r} in the end .", dict(a=a, b=b, x=x, r=r)))


def transfer(tell, integers, a, b, c, x, first):
    """The main thing goes from a to b, then to c or back."""
    y, place = another(integers, THINGS, x), integers.choice(LOCATIONS)
    brought = tell(integers.choice((
        "{a} had/VERB {x.a} .", "{a} brought {x.a} from home .", "{a} bought {x.a} in a shop .")),
        a=a, x=x)
    gave = tell(integers.choice((
        "{a} gave {x.obj} to {b} because {b.he} had asked for {x.obj} .",
        "{a} gave {x.obj} to {b} because {a.he} did not need {x.obj} .",
        "{b} wanted {x.obj} , so {a.again} lent {x.obj} to {b.him} .")), a=a, b=b, x=x)
    d = integers.choice((a, c))
    then = tell(integers.choice((
        "later {b} took {x.the} to {place} and gave {x.obj} to {d} .",
        "then {d} met {b} at {place} and got {x.the} from {b.him} .")), b=b, d=d, x=x, place=place)
    questions = [
        ("who had {x.the} first ?", dict(x=x), brought["a"], "PERSON"),
        ("who got {x.the} from {a} ?", dict(x=x, a=a), gave["b"], "PERSON"),
        ("who had {x.the} in the end ?", dict(x=x), then["d"], "PERSON"),
        ("where did {d} get {x.the} ?", dict(d=d, x=x), then["place"], "PLACE"),
        ("what did {a} give to {b} ?", dict(a=a, b=b), brought["x"], "THING")]
    two, three = (first, first + 2), (first, first + 3)
    claims = judged(two, "{p} has/VERB {x.the} now .", [
        (dict(p=b, x=x), ENTAILMENT), (dict(p=a, x=x), CONTRADICTION), (dict(p=b, x=y), NEUTRAL)])
    claims += judged(two, "{p} got {x.the} from {q} .", [
        (dict(p=b, q=a, x=x), ENTAILMENT), (dict(p=a, q=b, x=x), CONTRADICTION),
        (dict(p=b, q=a, x=y), NEUTRAL)])
    claims += judged(three, "{p} has/VERB {x.the} now .", [
        (dict(p=d, x=x), ENTAILMENT), (dict(p=b, x=x), CONTRADICTION), (dict(p=d, x=y), NEUTRAL)])
    return Outcome(questions, claims, (
        "{x.the} of {a} {were:x} with {d} in the end .", dict(a=a, x=x, d=d)))


def hide(tell, integers, a, b, c, x, first):
    """a puts the main thing somewhere, b elsewhere, and a looks for it."""
    box, bag = integers.sample(HOLDERS, 2)
    other, y = another(integers, HOLDERS, box, bag), another(integers, THINGS, x)
    put = tell(integers.choice((
        "{a} put {x.a} in {box.the} and went out .", "{a} kept {x.a} in {box.the} .")),
        a=a, x=x, box=box)
    moved = tell(integers.choice((
        "{b} took {x.the} out of {box.the} and hid {x.obj} in {bag.the} .",
        "then {b} came and put {x.obj} in {bag.the} because {b.he} wanted to/PART tease {a.him} .",
        "while {a.he} slept , {b} put {x.obj} in {bag.the} .")), a=a, b=b, x=x, box=box, bag=bag)
    tell(integers.choice((
        "{a} looked in {box.the} , but {x.the} {were:x} not there .",
        "{a} searched for {x.obj} all day , but {box.the} {were:box} empty .")), a=a, x=x, box=box)
    told = tell("{c} had seen {b} , so {c.he} helped {a} to/PART find {x.obj} .",
                a=a, b=b, c=c, x=x)
    questions = [
        ("where did {a} put {x.the} ?", dict(a=a, x=x), put["box"], "THING"),
        ("where did {b} put {x.the} ?", dict(b=b, x=x), moved["bag"], "THING"),
        ("who took {x.the} ?", dict(x=x), moved["b"], "PERSON"),
        ("who helped {a} ?", dict(a=a), told["c"], "PERSON"),
        ("what did {b} hide from {a} ?", dict(a=a, b=b), put["x"], "THING")]
    two = (first, first + 2)
    claims = judged(two, "{x.the} {are:x} in {h.the} now .", [
        (dict(x=x, h=bag), ENTAILMENT), (dict(x=x, h=box), CONTRADICTION),
        (dict(x=y, h=bag), NEUTRAL)])
    claims += judged(two, "{p} put {x.the} in {h.the} .", [
        (dict(p=b, x=x, h=bag), ENTAILMENT), (dict(p=b, x=x, h=other), CONTRADICTION),
        (dict(p=b, x=y, h=bag), NEUTRAL)])
    claims += judged((first, first + 3), "{p} looked for {x.the} .", [
        (dict(p=a, x=x), ENTAILMENT), (dict(p=a, x=y), NEUTRAL)])
    return Outcome(questions, claims, (
        "{b} hid {x.the} of {a} in {bag.the} .", dict(a=a, b=b, x=x, bag=bag)))


def lose(tell, integers, a, b, c, x, first):
    """a loses the main thing, b does not find it, and c does."""
    (place, wrong), y = integers.sample(LOCATIONS, 2), another(integers, THINGS, x)
    lost = tell(integers.choice((
        "{a} lost {x.a} near {place} .", "near {place} {a} lost {x.a} .")), a=a, x=x, place=place)
    tell("{b} searched for {x.obj} at {wrong} because {a.he} asked {b.him} for help ."
         if a.gender != b.gender else
         "{b} searched for {x.obj} at {wrong} because {b.he} was a friend of {a} .",
         a=a, b=b, x=x, wrong=wrong)
    found = tell(integers.choice((
        "in the end {c} found {x.obj} and gave {x.obj} back .",
        "but it was {c} who/PRON found {x.obj} behind a tree .")), c=c, x=x)
    tell(integers.choice((
        "{a} thanked {c.him} and was happy .",
        "{a} was happy because {x.the} {were:x} still good .")),
        a=a, c=c, x=x)
    questions = [
        ("who found {x.the} ?", dict(x=x), found["c"], "PERSON"),
        ("who lost {x.the} ?", dict(x=x), lost["a"], "PERSON"),
        ("where did {a} lose {x.the} ?", dict(a=a, x=x), lost["place"], "PLACE"),
        ("what did {a} lose ?", dict(a=a), lost["x"], "THING")]
    three = (first, first + 3)
    claims = judged(three, "{p} found {x.the} .", [
        (dict(p=c, x=x), ENTAILMENT), (dict(p=b, x=x), CONTRADICTION),
        (dict(p=c, x=y), NEUTRAL)])
    claims += judged((first, first + 2), "{p} lost {x.the} near {place} .", [
        (dict(p=a, x=x, place=place), ENTAILMENT), (dict(p=a, x=x, place=wrong), CONTRADICTION),
        (dict(p=a, x=y, place=place), NEUTRAL)])
    return Outcome(questions, claims, (
        "{a} lost {x.the} and {c} found {x.obj} .", dict(a=a, c=c, x=x)))


PLOTS = {count: COUNTED, transfer: THINGS, hide: THINGS, lose: THINGS}


def with_adjective(integers, thing, adjectives):
    """The same thing with an adjective; counted things have none."""
    return thing if thing in COUNTED else Thing(
        thing.noun, integers.choice(adjectives), thing.plural)
