from ._flow import UNDER_WAY as UNDER_WAY, Return as Return, SignIn as SignIn
from ._options import (
    PeopleOptions as PeopleOptions,
    ProxyOptions as ProxyOptions,
    SignInOptions as SignInOptions,
    check_people as check_people,
)
from ._people import Person as Person, identity_of as identity_of, proxied_person as proxied_person
