module Make (Io : S.IO) = struct
  module Request = Cohttp.Request.Make (Io)
  module Response = Cohttp.Response.Make (Io)

  type 'a io = 'a Io.t
  type line = { ic : Io.ic; oc : Io.oc; socket : Io.socket }

  type t = {
    host : string;
    port : int;
    token : string;
    place : Place.t;
    proof : (string * string) list;
    mutable help : string;
    mutable idle : line list;
    mutable lines : line list;
    mutable opening : int;
    mutable kept : (string * (string * string) list) list;  (** requests that a new session needs again, the last first *)
    mutable stale : bool;
    mutable lost : string;  (** why it was said that the node cannot be reached; "" = it is *)
    mutable renewed : int;
    mutable closed : bool;
    owner : int;  (** the process: one that was forked shares its lines, and would read its answers *)
  }

  exception Broken of string

  let ( >>= ) = Io.( >>= )
  let slowest_answer = 30.
  let slowest_line = 16_000.
  let longest_body = 3600.
  let shortest_answer = 0.05
  let shortest_login = 2.
  let first_pause = 0.05
  let longest_pause = 5.
  let silent_pause = 1.
  let most_opening = 8
  let shortest_wait = 0.001
  let longest_wait = 0.2

  (* Not the program's own: that one is the same in each process, and all would come back at one moment. *)
  let draws = Random.State.make_self_init ()
  let jittered pause = Random.State.float draws pause +. (pause /. 2.)

  let encoded name =
    let plain = function 'a' .. 'z' | 'A' .. 'Z' | '0' .. '9' | '-' | '_' | '.' | '~' | '@' -> true | _ -> false in
    let write each = if plain each then String.make 1 each else Printf.sprintf "%%%02X" (Char.code each) in
    String.concat "" (List.map write (List.of_seq (String.to_seq name)))

  let path parts = String.concat "" (List.map (fun part -> "/" ^ encoded part) parts)

  (* --- one request on one line *)

  let rec body reader found =
    Response.read_body_chunk reader >>= function
    | Cohttp.Transfer.Done -> Io.return (Buffer.contents found)
    | Chunk part | Final_chunk part ->
        Buffer.add_string found part;
        body reader found

  (* How long so many bytes may take. *)
  let for_bytes size = Float.min longest_body (float_of_int size /. slowest_line)

  (* [follows] is told how many bytes the answer has, before they come. *)
  let exchange line ~follows (meth, resource, headers, sent) =
    let size = Int64.of_int (String.length sent) in
    let headers = Cohttp.Header.of_list (("content-length", Int64.to_string size) :: headers) in
    let asked =
      { Cohttp.Request.headers; meth; scheme = None; resource; version = `HTTP_1_1; encoding = Fixed size }
    in
    Request.write (fun writer -> if sent = "" then Io.return () else Request.write_body writer sent) asked line.oc
    >>= fun () ->
    Io.flush line.oc >>= fun () ->
    Response.read line.ic >>= function
    | `Eof -> Io.fail (Broken "the node closed the line")
    | `Invalid said -> Io.fail (Broken said)
    | `Ok response -> (
        let answer = Io.return (Cohttp.Response.status response, Cohttp.Response.headers response) in
        match Response.has_body response with
        | `No -> answer >>= fun (status, headers) -> Io.return (status, headers, "")
        | `Yes | `Unknown ->
            let said = Cohttp.Header.get (Cohttp.Response.headers response) "content-length" in
            Option.iter follows (Option.bind said int_of_string_opt);
            body (Response.make_body_reader response line.ic) (Buffer.create 256) >>= fun text ->
            answer >>= fun (status, headers) -> Io.return (status, headers, text))

  let link session headers =
    match Cohttp.Header.get_links headers with
    | { target; _ } :: _ -> session.help <- session.place.uri ^ Uri.to_string target
    | [] -> ()

  let refused session status text =
    let code, said =
      match String.index_opt text ':' with
      | Some place when place < 40 ->
          (String.sub text 0 place, String.trim (String.sub text (place + 1) (String.length text - place - 1)))
      | _ -> (Cohttp.Code.string_of_status status, text)
    in
    Errors.Refused { code; text = said; help = session.help }

  (* What goes wrong on a line is that the line is broken, whatever it is. *)
  let ask session line ?(least = shortest_answer) ?(seconds = slowest_answer) ~until request =
    let began = Unix.gettimeofday () and _, _, _, sent = request in
    let patience = ref (seconds +. for_bytes (String.length sent)) in
    let follows size = patience := !patience +. for_bytes size in
    let ends () = began +. Float.max least (Float.min !patience (until () -. began)) in
    let broken error = Io.fail (if Io.passes error then error else Broken (Printexc.to_string error)) in
    Io.catch (fun () -> Io.within line.socket ends (fun () -> exchange line ~follows request)) broken
    >>= fun (status, headers, text) ->
    link session headers;
    match status with
    | `OK -> Io.return text
    | `Request_timeout | `Service_unavailable -> Io.fail (Broken text) (* it is well later *)
    | _ -> Io.fail (refused session status text)

  (* --- lines *)

  let drop session line =
    let others = List.filter (fun each -> each != line) in
    Io.atomic (fun () ->
        session.lines <- others session.lines;
        session.idle <- others session.idle;
        session.stale <- true);
    Io.free line.socket

  let get path = (`GET, path, [], "")

  (* A session that may be a new one needs its queues again. One that it does not get is forgotten: a fresh queue that is
     no more, or one that the program may not have any longer. *)
  let rec again session line ~until = function
    | [] -> Io.return ()
    | ((path, headers) as each) :: rest ->
        Io.catch
          (fun () -> ask session line ~least:shortest_login ~until (`GET, path, headers, "") >>= fun _ -> Io.return ())
          (function
            | Errors.Refused { code; text; _ } ->
                if code <> "NOT_FOUND" then
                  !Errors.log (Printf.sprintf "sapwood: ! %s is refused from now on: %s" path text);
                Io.atomic (fun () -> session.kept <- List.filter (fun one -> one <> each) session.kept);
                Io.return ()
            | error -> Io.fail error)
        >>= fun () -> again session line ~until rest

  let opened session ~until =
    let unreachable error = Io.fail (if Io.passes error then error else Broken (Printexc.to_string error)) in
    Io.catch (fun () -> Io.connect session.place session.host session.port) unreachable >>= fun (ic, oc, socket) ->
    let line = { ic; oc; socket } in
    Io.atomic (fun () -> session.lines <- line :: session.lines);
    let was_stale = session.stale in
    let prepare () =
      ask session line ~least:shortest_login ~until (`GET, path [ "login"; session.token ], session.proof, "")
      >>= fun _ ->
      session.lost <- "";
      if session.closed then Io.fail Errors.Closed
      else if not was_stale then Io.return line
      else
        again session line ~until (List.rev session.kept) >>= fun () ->
        session.stale <- false;
        session.renewed <- session.renewed + 1;
        Io.return line
    in
    Io.catch prepare (fun error ->
        drop session line;
        Io.fail error)

  type place = Idle of line | May_open | Wait

  (* A node takes few strangers of one address at a time, and ends one for each that is too many. So thousands of requests at
     once make their lines a few at a time, and those that wait take what the others give back. *)
  let rec taken ?(pause = shortest_wait) session ~until =
    let take () =
      match session.idle with
      | line :: rest ->
          session.idle <- rest;
          Idle line
      | [] when session.opening < most_opening ->
          session.opening <- session.opening + 1;
          May_open
      | [] -> Wait
    in
    let ended () = Io.atomic (fun () -> session.opening <- session.opening - 1) in
    match Io.atomic take with
    | Idle line -> Io.return line
    | May_open ->
        Io.catch
          (fun () ->
            opened session ~until >>= fun line ->
            ended ();
            Io.return line)
          (fun error ->
            ended ();
            Io.fail error)
    | Wait when session.closed -> Io.fail Errors.Closed
    | Wait when Unix.gettimeofday () > until () -> Io.fail (Broken "no line in time")
    | Wait -> Io.sleep (jittered pause) >>= fun () -> taken ~pause:(Float.min (2. *. pause) longest_wait) session ~until

  let on_a_line session ~until act =
    taken session ~until >>= fun line ->
    let back () =
      if session.closed then drop session line
      else Io.atomic (fun () -> if List.memq line session.lines then session.idle <- line :: session.idle)
    in
    Io.catch
      (fun () ->
        act line >>= fun result ->
        back ();
        Io.return result)
      (fun error ->
        (match error with Errors.Refused _ -> back () | _ -> drop session line);
        Io.fail error)

  let why_lost session said = Printf.sprintf "the node at %s:%d cannot be reached: %s" session.host session.port said
  let unreachable session said = Errors.Connect_failed (why_lost session said)

  (* Each reason once: a certificate that has ended is waited for like a node that is away. *)
  let tell_lost session said =
    if session.lost <> said then begin
      session.lost <- said;
      !Errors.log (Printf.sprintf "sapwood: ! %s; it is tried again" (why_lost session said))
    end

  let is_forked session = Unix.getpid () <> session.owner
  let never () = infinity

  (* [until] is asked again and again: it may come nearer. [anew]: what is asked instead once the session is another
     one. *)
  let request ?(until = never) ?seconds ?anew session asked =
    let began = session.renewed in
    let asked () = if session.renewed = began then asked else Option.value anew ~default:asked in
    let rec attempt pause =
      if session.closed || is_forked session then Io.fail Errors.Closed
      else
        Io.catch
          (fun () -> on_a_line session ~until (fun line -> ask session line ?seconds ~until (asked ())))
          (function
            | Broken _ when session.closed -> Io.fail Errors.Closed
            | Broken said when Unix.gettimeofday () +. pause > until () -> Io.fail (unreachable session said)
            | Broken said ->
                if pause > silent_pause then tell_lost session said;
                Io.sleep (jittered pause) >>= fun () -> attempt (Float.min (2. *. pause) longest_pause)
            | error -> Io.fail error)
    in
    attempt first_pause

  (* --- life *)

  let proof account secret =
    match (account, secret) with
    | Some (name, password), _ -> [ ("authorization", "Basic " ^ Base64.encode_string (name ^ ":" ^ password)) ]
    | None, Some secret -> [ ("authorization", "Bearer " ^ secret) ]
    | None, None -> []

  let connect ?token ?account ?secret ?ca ?certificate url =
    let uri = Uri.of_string url in
    match (Uri.scheme uri, Uri.host uri) with
    | Some (("http" | "https") as scheme), Some host ->
        let port = Option.value (Uri.port uri) ~default:7600 in
        let uri = Uri.to_string (Uri.make ~scheme ~host ~port ()) in
        let session =
          {
            host;
            port;
            token = (match token with Some token -> token | None -> "ocaml-" ^ Task.fresh ());
            place = { uri; account; secret; ca; certificate };
            proof = proof account secret;
            help = uri ^ "/docs";
            idle = [];
            lines = [];
            opening = 0;
            kept = [];
            stale = false;
            lost = "";
            renewed = 0;
            closed = false;
            owner = Unix.getpid ();
          }
        in
        Io.catch
          (fun () -> on_a_line session ~until:never (fun _ -> Io.return session))
          (function Broken said -> Io.fail (unreachable session said) | error -> Io.fail error)
    | _ -> Io.fail (Errors.Connect_failed (Printf.sprintf "%S: expected http://HOST:PORT or https://HOST:PORT of a node" url))

  let close session =
    session.closed <- true;
    if not (is_forked session) then List.iter (fun line -> Io.shut line.socket) session.lines;
    List.iter (drop session) session.idle

  let token session = session.token
  let place session = session.place
  let help session = session.help
  let renewed session = session.renewed

  (* --- verbs *)

  let keep session path headers =
    let each = (path, headers) in
    let same ((known, _) as one) = if known = path then each else one in
    Io.atomic (fun () ->
        session.kept <- (if List.mem_assoc path session.kept then List.map same session.kept else each :: session.kept))

  let forget session unwanted =
    let wanted (path, _) = not (List.mem path unwanted) in
    Io.atomic (fun () -> session.kept <- List.filter wanted session.kept)

  let at = Option.map Fun.const

  let create ?until ?(home = false) ?queue session =
    let headers = if home then [ ("sapwood-home", "yes") ] else [] in
    let asked = path ("create" :: Option.to_list queue) in
    request ?until:(at until) session (`GET, asked, headers, "") >>= fun name ->
    if queue <> None then keep session asked headers;
    Io.return name

  let subscribe ?until ?credit session queue =
    let asked = path [ "subscribe"; queue ] in
    let said most = ("sapwood-credit", string_of_int most) in
    let headers = Option.to_list (Option.map said credit) in
    request ?until:(at until) session (`GET, asked, headers, "") >>= fun _ ->
    keep session asked headers;
    Io.return ()

  let subscribed session queue = List.mem_assoc (path [ "subscribe"; queue ]) session.kept

  let destroy session queue =
    forget session [ path [ "create"; queue ]; path [ "subscribe"; queue ] ];
    request session (get (path [ "destroy"; queue ])) >>= fun _ -> Io.return ()

  let send ?until ?lifetime ?(tell = false) ?(correlation_id = "0") ?(reply_to = "") session queue payload =
    let asked = path ([ "send"; queue; correlation_id ] @ if reply_to = "" then [] else [ reply_to ]) in
    let lives seconds = ("sapwood-expires-in", Printf.sprintf "%.3f" seconds) in
    let headers = if tell then [ ("sapwood-tell", "yes") ] else [] in
    let headers = Option.to_list (Option.map lives lifetime) @ headers in
    let headers = match Io.task () with "" -> headers | task -> ("sapwood-task", encoded task) :: headers in
    request ?until:(at until) session (`POST, asked, headers, payload) >>= fun _ -> Io.return ()

  let transfer ?until session ~ack_to ~seconds =
    let above id = get (path [ "transfer"; Int64.to_string id; Printf.sprintf "%.3f" (Float.max 0. seconds) ]) in
    request ?until ~seconds:(seconds +. slowest_answer) ~anew:(above (-1L)) session (above ack_to) >>= fun text ->
    match Message.of_transfer text with
    | messages -> Io.return messages
    | exception Json.Wrong said -> Io.fail (Errors.Bad_reply ("an answer to a transfer cannot be read: " ^ said))

  let ack ?until session id =
    request ?until:(at until) session (get (path [ "ack"; Int64.to_string id ])) >>= fun _ -> Io.return ()

  let reject ?until session id reason =
    let headers = [ ("sapwood-reject", encoded reason) ] in
    request ?until:(at until) session (`GET, path [ "ack"; Int64.to_string id ], headers, "") >>= fun _ -> Io.return ()

  let list session prefix =
    request session (get (path [ "list"; prefix ])) >>= fun text ->
    match Read.array Read.string (Json.of_string text) with
    | names -> Io.return names
    | exception Json.Wrong said -> Io.fail (Errors.Bad_reply said)
end
