module Make (Io : S.IO) (Session : S.SESSION with type 'a io = 'a Io.t) = struct
  type 'a io = 'a Io.t
  type session = Session.t
  type interface = (Call.t -> Json.t io) Interface.t
  type waiting = { number : string; mailbox : string; until : float; mutable reply : Message.t option }

  (* What calls share. [reading]: one of those that wait reads the replies of all. [first]: when the first of them gives
     up. *)
  type shared = {
    session : Session.t;
    monitor : Io.monitor;
    waiting : (string, waiting) Hashtbl.t;
    mutable mailbox : string;
    mutable last : int;
    mutable seen : int64;
    mutable renewed : int;
    mutable reading : bool;
    mutable first : float;
  }

  type t = { shared : shared; queue : string option; timeout : float }

  let ( >>= ) = Io.( >>= )
  let return = Io.return
  let fail = Io.fail
  let shortest_read = 0.05
  let longest_read = 1.
  let longest_silence = 3.
  let slowest_line = 0.5

  let connect ?token ?account ?secret ?ca ?certificate url =
    Session.connect ?token ?account ?secret ?ca ?certificate url >>= fun session ->
    let waiting = Hashtbl.create 16 and monitor = Io.monitor () in
    return
      {
        shared =
          {
            session;
            monitor;
            waiting;
            mailbox = "";
            last = 0;
            seen = -1L;
            renewed = 0;
            reading = false;
            first = infinity;
          };
        queue = None;
        timeout = 30.;
      }

  let close rpc = Session.close rpc.shared.session
  let session rpc = rpc.shared.session

  let at ?queue ?timeout rpc =
    let queue = match queue with None -> rpc.queue | Some _ -> queue in
    { rpc with queue; timeout = Option.value timeout ~default:rpc.timeout }

  (* --- calling *)

  let always act after =
    Io.catch
      (fun () -> act () >>= fun result -> after () >>= fun () -> return result)
      (fun error -> after () >>= fun () -> fail error)

  (* Under the lock: a reply queue, a new one where the last has gone, and a place for the reply. *)
  let expect shared until =
    let session = shared.session in
    (if Session.subscribed session shared.mailbox then return ()
    else
      Session.create ~until session >>= fun mailbox ->
      Session.subscribe ~until session mailbox >>= fun () ->
      shared.mailbox <- mailbox;
      return ())
    >>= fun () ->
    shared.last <- shared.last + 1;
    let waiting = { number = string_of_int shared.last; mailbox = shared.mailbox; until; reply = None } in
    Hashtbl.replace shared.waiting waiting.number waiting;
    shared.first <- Float.min shared.first until;
    return waiting

  let arrived shared (message : Message.t) =
    shared.seen <- max shared.seen message.id;
    match Hashtbl.find_opt shared.waiting message.correlation_id with
    | Some waiting when waiting.reply = None -> waiting.reply <- Some message
    | _ -> ()

  let rec ack_all session until = function
    | [] -> return ()
    | (each : Message.t) :: rest -> Session.ack ~until session each.id >>= fun () -> ack_all session until rest

  (* The call that waits least is not kept by the others: not even where the node is silent. *)
  let earliest shared = Hashtbl.fold (fun _ each found -> Float.min each.until found) shared.waiting infinity

  (* Without the lock: read replies for all that wait. Where the node is away until then, there are none. *)
  let read shared =
    let seconds = Float.max shortest_read (Float.min (shared.first -. Unix.gettimeofday ()) longest_read) in
    let renewed = Session.renewed shared.session in
    if renewed <> shared.renewed then shared.seen <- -1L;
    shared.renewed <- renewed;
    Io.catch
      (fun () ->
        let until () = shared.first +. slowest_line in
        Session.transfer ~until shared.session ~ack_to:shared.seen ~seconds >>= fun messages ->
        Io.locked shared.monitor (fun () ->
            List.iter (arrived shared) messages;
            Io.broadcast shared.monitor;
            return ())
        >>= fun () -> ack_all shared.session (until ()) messages)
      (function Errors.Connect_failed _ -> Io.sleep shortest_read | error -> fail error)

  type turn = Reply of Message.t | Late | Lost | Read

  (* Under the lock: wait until there is a reply, or it is this call's turn to read. *)
  let rec turn shared waiting =
    match waiting.reply with
    | Some reply -> return (Reply reply)
    | None when Unix.gettimeofday () >= waiting.until -> return Late
    | None when not (Session.subscribed shared.session waiting.mailbox) -> return Lost
    | None when shared.reading -> Io.wait shared.monitor >>= fun () -> turn shared waiting
    | None ->
        shared.reading <- true;
        shared.first <- earliest shared;
        return Read

  let stopped_reading shared () =
    Io.locked shared.monitor (fun () ->
        shared.reading <- false;
        Io.broadcast shared.monitor;
        return ())

  let rec reply_of shared waiting asked =
    Io.locked shared.monitor (fun () -> turn shared waiting) >>= function
    | Reply reply -> return reply
    | Late -> fail (Errors.Call_timeout (asked ^ " was not answered in time"))
    | Lost -> fail (Errors.Reply_lost (asked ^ ": the reply queue went with the connection"))
    | Read ->
        always (fun () -> read shared) (stopped_reading shared) >>= fun () -> reply_of shared waiting asked

  (* The node may have been started anew since the last call: then the reply queue went with it, and the request
     is made once more, with the next one. *)
  let rec asked_of shared queue asked payload lifetime until =
    Io.locked shared.monitor (fun () -> expect shared until) >>= fun waiting ->
    let forget () =
      Io.locked shared.monitor (fun () -> return (Hashtbl.remove shared.waiting waiting.number))
    in
    let ask () =
      Session.send ~until ~lifetime ~tell:true ~correlation_id:waiting.number ~reply_to:waiting.mailbox shared.session
        queue payload
      >>= fun () ->
      if not (Session.subscribed shared.session waiting.mailbox) then return None
      else reply_of shared waiting asked >>= fun reply -> return (Some reply)
    in
    always ask forget >>= function
    | Some reply -> return reply
    | None -> asked_of shared queue asked payload lifetime until

  let request rpc (call : Call.t) =
    let until = Unix.gettimeofday () +. rpc.timeout in
    let queue = match rpc.queue with Some queue -> queue | None -> call.interface in
    let asked = Printf.sprintf "%S of %s" call.name queue in
    match Call.to_string call with
    | exception (Json.Wrong _ as error) -> fail error
    | payload ->
        let ask () =
          asked_of rpc.shared queue asked payload rpc.timeout until >>= fun (reply : Message.t) ->
          match Call.answer reply.payload with
          | answer -> return answer
          | exception Json.Wrong said ->
              fail (Errors.Bad_reply (Printf.sprintf "the reply of %s is none: %s" asked said))
        in
        let ask () = if Io.task () <> "" then ask () else Io.with_task (Task.fresh ()) ask in
        Io.catch ask (function
          | Errors.Refused { code = "QUEUE_DOES_NOT_EXIST"; text; _ } ->
              return (Error (Fault.make Fault.nobody_serves text))
          | error -> fail error)

  let call rpc ~interface ~version (stub : _ Stub.t) inputs =
    match { (stub.call_of inputs) with interface; version } with
    | exception (Json.Wrong _ as error) -> fail error
    | call -> (
        request rpc call >>= fun answer ->
        match Stub.result stub answer with result -> return result | exception error -> fail error)

  (* --- serving *)

  let methods (stub : _ Stub.t) act : _ Interface.method_ =
    let run call =
      match Stub.inputs stub call with
      | exception error -> fail error
      | inputs -> (
          act inputs >>= fun result ->
          match Stub.answer stub result with json -> return json | exception error -> fail error)
    in
    { name = stub.name; about = stub.about; run }

  let found interfaces (message : Message.t) =
    match Call.of_string message.payload with
    | call -> (
        match Interface.find interfaces call with
        | Help told -> return told
        | Method run -> run call
        | exception error -> fail error)
    | exception Json.Wrong said -> fail (Errors.Service (Fault.make Fault.bad_request ("not a request: " ^ said)))

  let answer queue interfaces message =
    Io.catch
      (fun () -> found interfaces message >>= fun json -> return (Call.result json))
      (function
        | Errors.Service fault -> (
            match Call.error fault with
            | text -> return text
            | exception Json.Wrong said ->
                return (Call.error (Fault.make Fault.failed ("an error that cannot be said: " ^ said))))
        | Sys.Break -> fail Sys.Break
        | error ->
            let said = Printexc.to_string error in
            !Errors.log (Printf.sprintf "sapwood: ! %s: a handler failed: %s" queue said);
            return (Call.error (Fault.make Fault.failed said)))

  let is_incarnation node =
    let fits place = function '0' .. '9' | 'a' .. 'f' -> true | each -> each = '-' && List.mem place [ 8; 13; 18; 23 ] in
    String.length node = 36 && Seq.fold_left (fun all (place, each) -> all && fits place each) true (String.to_seqi node)

  (* A fresh queue is for who made it: nobody at another node has answers sent there. *)
  let why_not_answered (message : Message.t) =
    let reply_to, origin = (message.reply_to, message.origin) in
    let node = match String.split_on_char '@' reply_to with [ _; node ] -> node | _ -> "" in
    let fresh = List.exists (fun prefix -> String.starts_with ~prefix reply_to) [ "transient-"; "queue:transient-" ] in
    if origin = "" || (not fresh) || List.mem node [ ""; origin ] || is_incarnation node then None
    else
      let shown = if String.length reply_to > 100 then String.sub reply_to 0 100 else reply_to in
      Some (Printf.sprintf "PERMIT: %s may have answers sent to fresh queues of its own, not to %s" origin shown)

  (* Give the reply to the node, for as long as it has no room. *)
  let rec reply session (message : Message.t) text =
    Io.catch
      (fun () -> Session.send ~correlation_id:message.correlation_id session message.reply_to text)
      (function
        | Errors.Refused { code = "QUEUE_FULL"; _ } ->
            Io.sleep (0.1 +. Random.float 0.4) >>= fun () -> reply session message text
        | Errors.Refused { code = "TOO_LARGE"; text = said; _ } ->
            let fault = Fault.make Fault.result_too_large said in
            Session.send ~correlation_id:message.correlation_id session message.reply_to (Call.error fault)
        | Errors.Refused { text = said; _ } ->
            !Errors.log (Printf.sprintf "sapwood: ! a request cannot be answered: %s" said);
            return ()
        | error -> fail error)

  let work session queue interfaces (message : Message.t) =
    match why_not_answered message with
    | Some said ->
        !Errors.log (Printf.sprintf "sapwood: ! %s: a request is not served: %s" queue said);
        Session.reject session message.id said
    | None ->
        Io.with_task message.task_id (fun () ->
            answer queue interfaces message >>= fun text ->
            (if message.reply_to = "" then return () else reply session message text) >>= fun () ->
            Session.ack session message.id)

  let until_closed act =
    Io.catch act (function
      | Errors.Closed -> return ()
      | error ->
          !Errors.log (Printf.sprintf "sapwood: ! a request stays with its queue: %s" (Printexc.to_string error));
          return ())

  let serve ?(workers = 8) session queue interfaces =
    let monitor = Io.monitor () and busy = Hashtbl.create workers in
    let ended id () =
      Io.locked monitor (fun () ->
          Hashtbl.remove busy id;
          Io.broadcast monitor;
          return ())
    in
    let rec room () =
      if Hashtbl.length busy < workers then return () else Io.wait monitor >>= fun () -> room ()
    in
    (* A request that comes again while it is in work is the same one, given again after a line broke. *)
    let begin_ (message : Message.t) =
      let known = Hashtbl.mem busy message.id in
      (if known then return () else room ()) >>= fun () ->
      Hashtbl.replace busy message.id ();
      return (not known)
    in
    let rec all = function
      | [] -> return ()
      | (message : Message.t) :: rest ->
          Io.locked monitor (fun () -> begin_ message) >>= fun is_new ->
          if is_new then
            Io.spawn (fun () ->
                always (fun () -> until_closed (fun () -> work session queue interfaces message)) (ended message.id));
          all rest
    in
    let open_ () = Session.create session ~queue >>= fun _ -> Session.subscribe ~credit:workers session queue in
    (* Nobody is told that a queue was deleted: it is made again. *)
    let look () =
      Io.catch open_ (function
        | Errors.Refused { text; _ } -> return (!Errors.log (Printf.sprintf "sapwood: ! %s is not read: %s" queue text))
        | error -> fail error)
    in
    let rec listen seen renewed =
      Session.transfer session ~ack_to:seen ~seconds:longest_silence >>= fun messages ->
      (if messages = [] then look () else all messages) >>= fun () ->
      let now = Session.renewed session in
      let last seen (each : Message.t) = max seen each.id in
      listen (if now <> renewed then -1L else List.fold_left last seen messages) now
    in
    Io.catch
      (fun () -> open_ () >>= fun () -> listen (-1L) (Session.renewed session))
      (function Errors.Closed -> return () | error -> fail error)
end
