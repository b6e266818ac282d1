(** How programs wait, and the modules that are made for each way: blocking, and with Lwt. *)

(** A way to wait. Made of the parts that a program of that kind uses anyway. *)
module type IO = sig
  include Cohttp.S.IO

  val fail : exn -> 'a t
  val catch : (unit -> 'a t) -> (exn -> 'a t) -> 'a t
  val sleep : float -> unit t
  val spawn : (unit -> unit t) -> unit

  type socket

  val connect : Place.t -> string -> int -> (ic * oc * socket) t
  (** To this host and port; with TLS where the place says https. *)

  val shut : socket -> unit
  (** End it: whoever reads from it is woken. *)

  val free : socket -> unit
  (** Nobody uses it any more. *)

  val within : socket -> (unit -> float) -> (unit -> 'a t) -> 'a t
  (** Read from it until the time that this tells, then raise anything. The time may come nearer meanwhile. *)

  val passes : exn -> bool
  (** Is it no fault of a line, but a wish to stop? *)

  val atomic : (unit -> 'a) -> 'a
  (** Change something that others change too; without waiting. *)

  val task : unit -> string
  val with_task : string -> (unit -> 'a t) -> 'a t
  (** Remember it for all that happens within. *)

  type monitor
  (** A lock on which one can wait for others to change what it guards. *)

  val monitor : unit -> monitor
  val locked : monitor -> (unit -> 'a t) -> 'a t
  val wait : monitor -> unit t
  val broadcast : monitor -> unit
end

type 'result connect =
  ?token:string ->
  ?account:string * string ->
  ?secret:string ->
  ?ca:string ->
  ?certificate:string * string ->
  string ->
  'result
(** How a program says which node it means, as "http://127.0.0.1:7600", and who it is. [token] names the session: a
    fresh one unless it is given. [account]: a name and its password; [secret]: that of the node's sessions. [ca]: the file
    of those who may certify an https node, the system's unless it is given; [certificate]: files of this application's
    own, and its key. *)

(** Tasks: all that one thing causes, at all nodes, as [sapwood trace --task] shows it. What a server's handler sends and
    calls is of the task of its request. *)
module type TASK = sig
  type 'a io

  val current : unit -> string
  (** Id of the task that this code runs for; "" = none. *)

  val within : ?name:string -> (unit -> 'a io) -> 'a io
  (** All that is sent and called within is of one task, of this name or with a fresh id. *)
end

module type SESSION = sig
  type 'a io
  type t

  val connect : t io connect
  (** Log in at a node. A line that breaks later is made again, with growing pauses, and all that was subscribed to is
      subscribed to again; requests wait for that. Raises {!Errors.Connect_failed} and {!Errors.Refused}. *)

  val close : t -> unit
  (** End the session: what is not acknowledged is given to others. In a process that was forked it lets go of the
      session of the one that forked, which goes on. *)

  val token : t -> string

  val place : t -> Place.t
  (** The node, and the proof that was given there. *)

  val help : t -> string
  (** Where the node explains its protocol: its answers' header Link. *)

  val renewed : t -> int
  (** How often it was made anew after a line that broke. The node may have another store since then, whose ids begin
      anew: what is transferred next begins at -1. *)

  val create : ?until:float -> ?home:bool -> ?queue:string -> t -> string io
  (** Make a queue, or with [queue] see that there is one of this name. Returns the name: without [queue] a fresh one,
      of a queue that goes with the session. [home]: its messages stay at this node. All requests: [until] is the time,
      as [Unix.gettimeofday] tells it, at which they give up with {!Errors.Connect_failed}; they raise {!Errors.Refused}
      and {!Errors.Closed}. *)

  val destroy : t -> string -> unit io
  val subscribe : ?until:float -> ?credit:int -> t -> string -> unit io
  (** Read a queue. [credit]: how many of its messages the session has at once that it has not acknowledged; any number
      unless it is given. *)

  val subscribed : t -> string -> bool
  (** False once a fresh queue has gone with its session, or the node refused it when the session was made anew. *)

  val send :
    ?until:float ->
    ?lifetime:float ->
    ?tell:bool ->
    ?correlation_id:string ->
    ?reply_to:string ->
    t ->
    string ->
    string ->
    unit io
  (** [send session queue payload] returns when the node has it on disk. If the line broke before the answer it is sent
      again: it may come twice, and is not lost. [lifetime]: seconds, after which nobody is given it. [tell]: where nobody
      serves the queue it is {!Errors.Refused}, or the node that knows it answers {!Fault.nobody_serves} at [reply_to],
      which must be named then. *)

  val transfer : ?until:(unit -> float) -> t -> ack_to:int64 -> seconds:float -> Message.t list io
  (** Messages with ids above [ack_to] (-1 = all): at once if there are any, none after [seconds]. All where the session
      is made anew meanwhile. [until] may come nearer while it waits. *)

  val ack : ?until:float -> t -> int64 -> unit io

  val reject : ?until:float -> t -> int64 -> string -> unit io
  (** Say that nobody can deal with this message: it becomes a dead letter, with the reason. *)

  val list : t -> string -> string list io
end

module type RPC = sig
  type 'a io
  type session

  type t
  (** Calls services. *)

  type interface = (Call.t -> Json.t io) Interface.t

  val return : 'a -> 'a io
  val fail : exn -> 'a io

  val connect : t io connect
  (** As a session's [connect]. *)

  val close : t -> unit

  val session : t -> session
  (** The one that calls go over: it makes and takes channels, too. *)

  val at : ?queue:string -> ?timeout:float -> t -> t
  (** The same, for calls to this queue (NAME, or NAME@NODE; the interface's name unless it is given) that wait so many
      seconds (30). *)

  val request : t -> Call.t -> (Json.t, Fault.t) result io
  (** Any call. Raises {!Errors.Call_timeout}, {!Errors.Connect_failed}, {!Errors.Reply_lost}, {!Errors.Bad_reply},
      {!Errors.Refused}; {!Json.Wrong} for what JSON cannot say, before anything is sent. *)

  val call : t -> interface:string -> version:string -> ('i, 'o, 'e) Stub.t -> 'i -> ('o, 'e) result io
  (** A call with types. Raises also {!Json.Wrong} for wrong inputs, before anything is sent, and {!Errors.Service}. *)

  val methods : ('i, 'o, 'e) Stub.t -> ('i -> ('o, 'e) result io) -> (Call.t -> Json.t io) Interface.method_
  (** A method out of a function with types. *)

  val serve : ?workers:int -> session -> string -> interface list -> unit io
  (** Answer the requests on a queue, [workers] (8) at once, until the session is closed. The reply is on disk before
      the request is acknowledged; an exception that is no {!Errors.Service} is answered [FAILED] and logged. *)
end

module type CHANNEL = sig
  type 'a io
  type session

  val make : ?wait:float -> session -> (Unix.file_descr * Channel.t) io
  (** A new channel: the end of this application, a connected stream socket, and the value that another one takes the
      other end with, within [wait] seconds (60). A process beside this one, [sapwood-channel], waits for whoever comes.
      Raises {!Errors.Channel_failed}. *)

  val take : ?ways:Channel.way list -> ?timeout:float -> session -> Channel.t -> (Unix.file_descr * Channel.way) io
  (** The channel that another application made, by the most efficient of these ways that works, and which that is.
      Within [timeout] seconds (40). Raises {!Errors.Channel_failed}. *)
end
