"""All operations of the API, in one table. What is served elsewhere is described here as well."""

from typing import Any, Final

from broker.administration import answers
from broker.administration.dead import Selection
from broker.administration.queues import ORDERS
from broker.http.api.following import follow
from broker.http.api.invitations import of_invitations
from broker.http.api.operations import NDJSON, Call, Operation, Parameter
from broker.http.api.parameters import GONE, NODE, PAGE, SEARCH, cut_of
from broker.http.api.permits import of_permits
from broker.http.api.status import Status
from broker.http.api.tree import of_the_tree
from broker.http.ports import NodePort

_QUEUE: Final = Parameter(
    "name", "`NAME`, `NAME@NODE`, or as a list of queues calls it: `queue:NAME`.", in_path=True
)
_MESSAGE: Final = Parameter("id", "`BUNDLEHEX-INDEX`, as the queue's messages have it.", in_path=True)
_REASON: Final = Parameter("reason", "Only those with this reason, or with this head of it.")
_DESTINATION: Final = Parameter("destination", "`queue:NAME`, `topic:PATTERN`; wildcards as in MQTT.")


def operations(node: NodePort) -> list[Operation]:
    """Of one node."""
    return [
        *_state(node),
        *_queues(node),
        *_sessions(node),
        *_dead(node),
        *of_the_tree(node),
        *of_invitations(node),
        *of_permits(node),
        *_messages(node),
    ]


def _state(node: NodePort) -> list[Operation]:
    async def leave(_call: Call) -> Any:
        return await node.administration.leave()

    async def forget(call: Call) -> Any:
        return node.administration.forget(call["node"])

    async def locate(_call: Call) -> Any:
        return await node.administration.locate()

    refused = {409: "It cannot be done now; the text says why."}
    return [
        Operation("GET", "/api/status", "How the node is.", "node", Status),
        Operation("GET", "/api/openapi.json", "This description.", "node", dict[str, Any]),
        Operation(
            "POST",
            "/api/node/leave",
            "Leave the tree for good; the node hands over what it has, says goodbye and stops.",
            "node",
            answers.Left,
            leave,
            errors=refused,
        ),
        Operation(
            "POST",
            "/api/node/locate",
            "Look the parent up in DNS (srv://) now; if it has moved, the link follows.",
            "node",
            answers.Located,
            locate,
            errors=refused,
        ),
        Operation(
            "POST",
            "/api/node/forget/{node}",
            "Say goodbye in place of a child that will not come back.",
            "node",
            answers.Forgotten,
            forget,
            (NODE,),
            errors={**GONE, **refused},
        ),
        Operation(
            "GET",
            "/api/live",
            "The node's state again and again, a line of JSON each interval.",
            "node",
            None,
            parameters=(
                Parameter("parts", "Which objects, with commas between.", default="status"),
                Parameter("interval", "Seconds between two lines.", "number", default=1, least=0.2, most=60),
            ),
            media=NDJSON,
            errors={503: "Enough others read this stream."},
        ),
    ]


def _queues(node: NodePort) -> list[Operation]:
    async def queues(call: Call) -> Any:
        return await node.administration.queues.page(call["search"], call["sort"], cut_of(call))

    async def queue(call: Call) -> Any:
        return node.administration.queues.detail(call["name"])

    async def contents(call: Call) -> Any:
        return await node.administration.queues.contents(call["name"], cut_of(call))

    async def delete(call: Call) -> Any:
        return await node.administration.queues.delete(call["name"])

    async def delete_message(call: Call) -> Any:
        return await node.administration.queues.delete_message(call["name"], call["id"])

    sort = Parameter("sort", "By name, or the largest first.", default="name", choices=ORDERS)
    given = {409: "GIVEN: a reader has it now; or the queue is the node's own."}
    path = "/api/queues/{name}"
    return [
        Operation("GET", "/api/queues", "Queues.", "queues", answers.Queues, queues, (SEARCH, sort, *PAGE)),
        Operation("GET", path, "One queue.", "queues", answers.QueueDetail, queue, (_QUEUE,), errors=GONE),
        Operation(
            "DELETE",
            path,
            "Delete a queue with its messages; its readers end.",
            "queues",
            answers.QueueDeleted,
            delete,
            (_QUEUE,),
            errors={**GONE, **given},
        ),
        Operation(
            "GET",
            f"{path}/messages",
            "The messages of a queue, oldest first.",
            "queues",
            answers.Messages,
            contents,
            (_QUEUE, *PAGE),
            errors=GONE,
        ),
        Operation(
            "DELETE",
            f"{path}/messages/{{id}}",
            "Delete one message that waits.",
            "queues",
            answers.MessageDeleted,
            delete_message,
            (_QUEUE, _MESSAGE),
            errors={**GONE, **given},
        ),
    ]


def _sessions(node: NodePort) -> list[Operation]:
    async def sessions(call: Call) -> Any:
        return await node.administration.sessions.page(cut_of(call))

    async def consumers(call: Call) -> Any:
        return await node.administration.sessions.consumers(call["search"], cut_of(call))

    async def end(call: Call) -> Any:
        return await node.administration.sessions.end_subscription(call["id"])

    handle = Parameter("id", "As the consumers have it.", in_path=True)
    return [
        Operation("GET", "/api/sessions", "Client sessions.", "clients", answers.Sessions, sessions, PAGE),
        Operation(
            "GET",
            "/api/consumers",
            "Who wants something here.",
            "clients",
            answers.Consumers,
            consumers,
            (SEARCH, *PAGE),
        ),
        Operation(
            "DELETE",
            "/api/subscriptions/{id}",
            "End a subscription to a topic for good, with what waits for it.",
            "clients",
            answers.SubscriptionEnded,
            end,
            (handle,),
            errors=GONE,
        ),
    ]


def _dead(node: NodePort) -> list[Operation]:
    async def dead(call: Call) -> Any:
        selection = Selection(reason=call["reason"], destination=call["destination"])
        return await node.administration.dead.page(selection, cut_of(call))

    async def give_back(call: Call) -> Any:
        return await node.administration.dead.give_back(call.body)

    async def delete(call: Call) -> Any:
        body: Selection = call.body
        body.reason = body.reason or call["reason"]
        body.destination = body.destination or call["destination"]
        body.ids = [*body.ids, *(each for each in call["ids"].split(",") if each)]
        body.all = body.all or call["all"]
        return await node.administration.dead.delete(body)

    ids = Parameter("ids", "Ids of letters, with commas between.")
    all_of_them = Parameter("all", "All of them.", "boolean", default=False)
    which = (_REASON, _DESTINATION)
    return [
        Operation(
            "GET",
            "/api/dead",
            "Dead letters, newest first.",
            "dead letters",
            answers.DeadLetters,
            dead,
            (*which, *PAGE),
        ),
        Operation(
            "POST",
            "/api/dead/return",
            "Route dead letters again.",
            "dead letters",
            answers.Returned,
            give_back,
            body=Selection,
        ),
        Operation(
            "DELETE",
            "/api/dead",
            "Throw dead letters away.",
            "dead letters",
            answers.Count,
            delete,
            (*which, ids, all_of_them),
            body=Selection,
        ),
    ]


def _messages(node: NodePort) -> list[Operation]:
    async def following(call: Call) -> Any:
        return await follow(node, call)

    message = Parameter("id", "`BUNDLEHEX-INDEX`.", in_path=True)
    task = Parameter("task", "A task id.", in_path=True)
    whole = Parameter("correlation_id", "Only with this correlation id.", "integer", default=None)
    return [
        Operation(
            "GET",
            "/api/trace/message/{id}",
            "A message's way through the tree, hop by hop.",
            "messages",
            dict[str, Any],
            parameters=(message,),
        ),
        Operation(
            "GET",
            "/api/trace/task/{task}",
            "All requests and replies of a task, at all nodes.",
            "messages",
            dict[str, Any],
            parameters=(task,),
        ),
        Operation(
            "GET",
            "/api/follow",
            "What happens to messages here, as it happens: a line of JSON each; empty lines say nothing.",
            "messages",
            answers.Event,
            following,
            (
                _DESTINATION,
                Parameter("session", "Only of this session: its token, or as it is masked."),
                Parameter("task", "Only of this task."),
                whole,
                Parameter("payload", "With the payload.", "boolean", default=False),
            ),
            media=NDJSON,
            errors={503: "BUSY: enough others follow.", 409: "The trace is switched off."},
        ),
    ]
